"""Natural language inference: SNLI and MultiNLI."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.atomic import atomic_path
from repro.data.corpora.corpus import HUB_STEMS, Download, HubCorpus, HubFiles
from repro.errors import DataError

LABELS = ("entailment", "neutral", "contradiction")
UNLABELLED = "-"


@dataclass(frozen=True, kw_only=True)
class SentencePairs(HubCorpus):
    """Labelled sentence pairs.

    Attributes:
        files: file name of each part.
        halved: part to split into validation and test data, if the corpus has no labeled test
            data.
    """

    files: Mapping[str, str]
    halved: str | None = None

    @property
    def expected(self) -> list[str]:
        """Paths of the parts, relative to the data folder."""
        return [f"{self.folder}/{name}" for name in self.files.values()]

    @property
    def archive_folder(self) -> str:
        """Data folder, because the archives contain the folder of the corpus."""
        return "."

    def write_hub_split(
        self, split: str, rows: Iterable[Mapping[str, object]], data_dir: Path
    ) -> list[Path]:
        """Write the rows of a part with the keys of the archives, one JSON object per line."""
        assert self.hub is not None
        path, origin = data_dir / self.folder / self.files[split], self.hub.repository
        with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
            for number, row in enumerate(rows):
                label = row.get("label")
                if not isinstance(label, int) or not -1 <= label < len(LABELS):
                    raise DataError(
                        f"{origin} {split}, row {number}: label: expected -1, 0, 1 or 2, found "
                        f"{label!r}"
                    )
                record = {
                    "gold_label": UNLABELLED if label == -1 else LABELS[label],
                    "pairID": row.get("pairID", f"{split}-{number}"),
                }
                for key, name in (("sentence1", "premise"), ("sentence2", "hypothesis")):
                    record[key] = row.get(name)
                    if f"{name}_binary_parse" in row:
                        record[f"{key}_binary_parse"] = row[f"{name}_binary_parse"]
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        return [path]


SNLI = SentencePairs(
    name="snli",
    title="SNLI 1.0, natural language inference on captions of photographs",
    tasks=("snli", "nli_alignment"),
    licence="CC BY-SA 4.0",
    citation="Bowman et al. (2015), A large annotated corpus for learning NLI",
    folder="snli_1.0",
    files={part: f"snli_1.0_{part}.jsonl" for part in ("train", "dev", "test")},
    sizes={"train": 549_367, "dev": 9_842, "test": 9_824},
    downloads=(Download("https://nlp.stanford.edu/projects/snli/snli_1.0.zip"),),
    members=("snli_1.0_*.jsonl",),
    hub=HubFiles(
        "stanfordnlp/snli",
        {split: f"plain_text/{stem}-*.parquet" for split, stem in HUB_STEMS.items()},
        "cdb5c3d5eed6ead6e5a341c8e56e669bb666725b",
    ),
)
MULTINLI = SentencePairs(
    name="multinli",
    title="MultiNLI 1.0, natural language inference on ten genres",
    tasks=("snli", "nli_alignment"),
    licence="OANC, CC BY 3.0, CC BY-SA 3.0 and others",
    citation="Williams et al. (2018), A broad-coverage challenge corpus",
    folder="multinli_1.0",
    files={part: f"multinli_1.0_{part}.jsonl" for part in ("train", "dev_matched")},
    halved="dev_matched",
    sizes={"train": 392_702, "dev_matched": 9_815},
    downloads=(Download("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip"),),
    members=("multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl"),
    hub=HubFiles(
        "nyu-mll/multi_nli",
        {"train": "data/train-*.parquet", "dev_matched": "data/validation_matched-*.parquet"},
        "da70db2af9d09693783c3320c4249840212ee221",
    ),
)
CORPORA = (SNLI, MULTINLI)
