"""CoNLL–SIGMORPHON 2018 task 1."""

from importlib import resources

from repro.data.corpora.corpus import Corpus, Download

COMMIT = "490e2e0693241f708670d9d1c56803b754fab7cd"


def packaged_checksums(name: str) -> dict[str, str]:
    """Read checksums by path from a packaged file in the format of ``sha256sum``."""
    text = (resources.files("repro.data") / "checksums" / name).read_text(encoding="utf-8")
    pairs = (line.split("  ", 1) for line in text.splitlines())
    return {path: checksum for checksum, path in pairs}


SIGMORPHON = Corpus(
    name="sigmorphon2018",
    title="CoNLL–SIGMORPHON 2018 task 1, morphological inflection, 103 languages",
    tasks=("morphology",),
    licence="none stated; derived from Wiktionary, so fetched and never redistributed here",
    citation="Cotterell et al. (2018), The CoNLL–SIGMORPHON 2018 Shared Task",
    folder="conll2018",
    downloads=tuple(
        Download(
            f"https://raw.githubusercontent.com/sigmorphon/conll2018/{COMMIT}/"
            + path.removeprefix("conll2018/"),
            f"sha256:{checksum}",
            path,
        )
        for path, checksum in packaged_checksums("sigmorphon2018.sha256").items()
    ),
)
CORPORA = (SIGMORPHON,)
