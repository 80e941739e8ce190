"""Fertilities of source words for bounded attention: constant, from an aligner or a tagger."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from repro.config.errors import ConfigError
from repro.config.schema.seq2seq import FertilityConfig
from repro.data.alignment.links import StoredLinks, fertilities, largest_fertilities, write_links
from repro.data.alignment.model import train_two_way
from repro.data.batching import Seq2SeqBatch, collate, epoch_batches, ordered_batches, sent
from repro.data.pair import Links
from repro.data.preparation import PreparedCorpus
from repro.data.stages import cached_stage
from repro.data.vocabulary import SINK
from repro.models.seq2seq.fertility import (
    AlignedFertility,
    ConstantFertility,
    Fertility,
    FertilityTagger,
    PredictedFertility,
    TableFertility,
)
from repro.tasks.seq2seq import source_lengths
from repro.training.checkpoint import load_weights, save_weights

_WEIGHTS = "tagger.safetensors"
_VERSION = 2
"""Version of cached alignments and taggers, to be increased when their computation changes."""
_IGNORED = -100
"""Target of padding and of the sink, which the loss leaves out (``ignore_index``)."""
_UNREAD = frozenset({"strategy", "value", "margin", "links", "training_bounds"})
"""Settings that the training of a tagger does not read; links are part of the alignment."""


@dataclass(frozen=True)
class AlignedCorpus:
    """Corpus, prepared with a sink, and the links that an aligner gives each pair of its splits."""

    data: PreparedCorpus
    links: Mapping[str, Sequence[Links]]
    sink: int

    def fertilities(self, split: str, least: int = 0) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the ids of each source sentence and the fertilities of its words (no sink)."""
        for pair, links in zip(self.data.splits[split], self.links[split], strict=True):
            words = pair.source
            counts = fertilities(links, len(words) - 1)
            yield words, [max(count, least) for count in counts]


def build_fertility(
    config: FertilityConfig, data: PreparedCorpus, seed: int, device: torch.device
) -> Fertility:
    """Create the source of fertilities that a configuration names.

    Links and trained taggers are cached, so that a resumed run and other runs with the same
    settings use the same values.

    ``data`` is prepared with a sink; if it has no splits, as for predictions, the module is
    untrained and its weights are loaded later. ``seed`` and ``device`` are those of the training of
    a tagger.

    References:
        Malaviya et al. (2018), §4.
    """
    (sink,) = data.source.encode([SINK])
    if config.strategy == "constant":
        return ConstantFertility(config.value, sink)
    if not data.splits:  # the weights of a trained model will be loaded
        if config.strategy == "actual":
            raise ConfigError(
                "model.fertility.strategy=actual counts the links of each sentence to its "
                "reference, which text to predict lacks; predict with a run of another strategy"
            )
        if config.strategy == "guided":
            return TableFertility(torch.ones(len(data.source)), sink)
        return PredictedFertility(new_tagger(config, len(data.source), seed), sink, config.margin)
    corpus = align_splits(config, data, sink)
    if config.strategy == "guided":
        sentences = (source for source, _ in _words(data, "train", sink))
        table = torch.ones(len(data.source))
        for word, count in largest_fertilities(sentences, corpus.links["train"]).items():
            table[int(word)] = count
        return TableFertility(table, sink)
    if config.strategy == "actual":
        return _actual(config, corpus, *corpus.links)
    training = _actual(config, corpus, "train") if config.training_bounds == "aligned" else None
    tagger = new_tagger(config, len(data.source), seed)
    settings = {key: value for key, value in asdict(config).items() if key not in _UNREAD}
    identity = _alignment_identity(config, data) | settings | {"seed": seed}

    def build(folder: Path) -> None:
        train_tagger(tagger.to(device), config, corpus, seed)
        save_weights(folder / _WEIGHTS, tagger)

    load_weights(cached_stage(data.cache, "tagger", identity, build) / _WEIGHTS, tagger.cpu())
    return PredictedFertility(tagger, sink, config.margin, training)


def align_splits(config: FertilityConfig, data: PreparedCorpus, sink: int) -> AlignedCorpus:
    """Align all splits, or read their links from the cache."""

    def build(folder: Path) -> None:
        aligner = train_two_way(_words(data, "train", sink))
        pruned = aligner.pruned()  # align new text as fast_align's force_align.py does
        for split in data.splits:
            chosen = aligner if split == "train" else pruned
            links = chosen.align(_words(data, split, sink), symmetric=config.links != "forward")
            write_links(folder / f"{split}.arrow", links)

    folder = cached_stage(data.cache, "alignment", _alignment_identity(config, data), build)
    links = {split: StoredLinks(folder / f"{split}.arrow") for split in data.splits}
    return AlignedCorpus(data, links, sink)


def _alignment_identity(config: FertilityConfig, data: PreparedCorpus) -> dict[str, object]:
    return {"version": _VERSION, "prepared": data.name, "links": config.links}


def _words(data: PreparedCorpus, split: str, sink: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the pairs of a split as the aligner reads them: ids as strings, without the sink."""
    for pair in data.splits[split]:
        source = [str(number) for number in pair.source if number != sink]
        yield source, [str(number) for number in pair.target]


def _actual(config: FertilityConfig, corpus: AlignedCorpus, *splits: str) -> AlignedFertility:
    found = (one for split in splits for one in corpus.fertilities(split, config.least))
    return AlignedFertility(found, corpus.sink, config.margin)


def new_tagger(config: FertilityConfig, vocabulary: int, seed: int) -> FertilityTagger:
    """Create an untrained tagger without changing the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also seeds every GPU
        return FertilityTagger(vocabulary, config)


def train_tagger(
    tagger: FertilityTagger, config: FertilityConfig, corpus: AlignedCorpus, seed: int
) -> None:
    """Train a tagger in place on fertilities found by an aligner, with cross-entropy over words.

    It gets the weights of the epoch with the best :func:`fertility_f1` on validation data. ``seed``
    determines the order of the batches and the dropout; the global random state is not changed.

    References:
        The released program of Malaviya et al. (2018), ``fertility_predictor.py``.
    """
    device = tagger.scores.weight.device
    pairs, links = corpus.data.splits["train"], corpus.links["train"]
    weight = torch.ones(config.classes)
    weight[0] = config.first_class_weight
    weight = sent(weight, device)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=config.learning_rate)
    best, best_weights = -1.0, tagger.state_dict()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for epoch in range(config.epochs):
            tagger.train()
            for indices in epoch_batches(source_lengths(pairs), config.batch_size, seed, epoch):
                batch = collate(pairs, indices)
                targets = _classes(tagger, batch, [links[n] for n in indices], corpus.sink)
                batch, targets = batch.to(device), sent(targets, device)
                scores = tagger(batch.source, batch.source_lengths)
                # On CUDA the loss of a batch of sequences is not deterministic; on a CPU it is, and
                # the flat form would round differently.
                if scores.is_cuda:
                    scores, targets = scores.flatten(0, 1), targets.flatten()
                else:
                    scores = scores.transpose(1, 2)
                loss = cross_entropy(scores, targets, weight, ignore_index=_IGNORED)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            f1 = fertility_f1(tagger, config, corpus, "dev")
            if f1 > best:
                best, best_weights = f1, deepcopy(tagger.state_dict())
    tagger.load_state_dict(best_weights)


@torch.no_grad()
def fertility_f1(
    tagger: FertilityTagger, config: FertilityConfig, corpus: AlignedCorpus, split: str
) -> float:
    """Compute the micro-averaged F1 of all fertility classes except the first, between 0 and 1.

    The prediction for a word is its most probable class.
    """
    tagger.eval()
    device = tagger.scores.weight.device
    pairs, links = corpus.data.splits[split], corpus.links[split]
    matches = positives = 0
    for indices in ordered_batches(source_lengths(pairs), config.batch_size):
        batch = collate(pairs, indices)
        targets = _classes(tagger, batch, [links[n] for n in indices], corpus.sink)
        batch, targets = batch.to(device), sent(targets, device)
        predicted = tagger(batch.source, batch.source_lengths).argmax(-1)[targets != _IGNORED]
        targets = targets[targets != _IGNORED]
        matches += int(((predicted == targets) & (targets > 0)).sum())
        positives += int((predicted > 0).sum() + (targets > 0).sum())
    return 2 * matches / positives if positives else 0.0


def _classes(
    tagger: FertilityTagger, batch: Seq2SeqBatch, links: Sequence[Links], sink: int
) -> Tensor:
    """Return the target classes of a padded batch; the sink, which ends a source, has none.

    The batch is on the CPU: to read its words from a device would make the host wait.
    """
    targets = torch.full(batch.source.shape, _IGNORED)
    last_class = tagger.scores.out_features - 1
    for row, words, found in zip(targets, batch.source, links, strict=True):
        length = int((words == sink).nonzero()[0])
        counts = torch.tensor(fertilities(found, length))
        row[:length] = (counts - tagger.least).clamp(0, last_class)
    return targets
