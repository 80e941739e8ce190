"""Fertilities of source words for bounded attention: constant, by an aligner, or by a tagger."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from repro.config.schema.seq2seq import FertilityConfig
from repro.data.alignment import (
    AlignerSettings,
    Links,
    StoredLinks,
    fertilities,
    largest_fertilities,
    train_two_way,
    write_links,
)
from repro.data.batching import Pair, collate, epoch_batches
from repro.data.preparation import SINK, PreparedCorpus
from repro.data.stages import cached_stage
from repro.models.seq2seq import (
    ConstantFertility,
    Fertility,
    FertilityTagger,
    PredictedFertility,
    TableFertility,
)
from repro.tasks.seq2seq import source_lengths
from repro.training.checkpoint import load_weights, save_weights

_LINKS, _WEIGHTS = "links.arrow", "tagger.safetensors"
_IGNORED = -100
"""Class of padding and of the sink, which have no fertility to learn."""


def build_fertility(
    config: FertilityConfig, data: PreparedCorpus, prepared: str, cache: Path, seed: int
) -> Fertility:
    """The fertilities that a configuration asks for.

    Links and a trained tagger are kept in the cache, so that a run that goes on, and other runs
    with the same settings, find the same values.

    Args:
        config: the strategy and its settings.
        data: the corpus, prepared with a sink.
        prepared: name of the corpus with all settings of its preparation.
        cache: where stages are kept.
        seed: of the tagger.

    References:
        Malaviya et al. (2018), §4.
    """
    (sink,) = data.source.encode([SINK])
    if config.strategy == "constant":
        return ConstantFertility(config.value, sink)
    identity = {"prepared": prepared, "aligner": asdict(AlignerSettings())}
    folder = cached_stage(cache, "alignment", identity, partial(_write_links, data, sink))
    links = StoredLinks(folder / _LINKS)
    if config.strategy == "guided":
        return TableFertility(_largest(data, links, sink), sink)
    tagger = new_tagger(config, len(data.source), seed)
    settings = {key: value for key, value in asdict(config).items() if key in _TAGGER_KEYS}
    build = partial(_write_tagger, tagger, config, data, links, sink, seed)
    trained = cached_stage(cache, "tagger", identity | settings | {"seed": seed}, build)
    load_weights(trained / _WEIGHTS, tagger)
    return PredictedFertility(tagger, sink, config.margin)


_TAGGER_KEYS = frozenset(
    {"classes", "embedding_size", "hidden_size", "epochs", "batch_size", "learning_rate"}
)


def _words(ids: Sequence[int], sink: int | None = None) -> list[str]:
    """Ids as words for the aligner, without the sink."""
    return [str(number) for number in ids if number != sink]


def _training_words(data: PreparedCorpus, sink: int) -> Iterator[tuple[list[str], list[str]]]:
    """The training pairs as the aligner reads them, one at a time."""
    for pair in data.splits["train"]:
        yield _words(pair.source, sink), _words(pair.target)


def _write_links(data: PreparedCorpus, sink: int, folder: Path) -> None:
    aligner = train_two_way(_training_words(data, sink))
    write_links(folder / _LINKS, aligner.stream(_training_words(data, sink)))


def _largest(data: PreparedCorpus, links: Sequence[Links], sink: int) -> Tensor:
    sentences = (source for source, _ in _training_words(data, sink))
    table = torch.ones(len(data.source))
    for word, count in largest_fertilities(sentences, links).items():
        table[int(word)] = count
    return table


def new_tagger(config: FertilityConfig, vocabulary: int, seed: int) -> FertilityTagger:
    """An untrained tagger; the random state outside stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return FertilityTagger(
            vocabulary, config.embedding_size, config.hidden_size, config.classes
        )


def _write_tagger(
    tagger: FertilityTagger,
    config: FertilityConfig,
    data: PreparedCorpus,
    links: Sequence[Links],
    sink: int,
    seed: int,
    folder: Path,
) -> None:
    train_tagger(tagger, config, data.splits["train"], links, sink, seed)
    save_weights(folder / _WEIGHTS, tagger)


def train_tagger(
    tagger: FertilityTagger,
    config: FertilityConfig,
    pairs: Sequence[Pair],
    links: Sequence[Links],
    sink: int,
    seed: int,
) -> None:
    """Train a tagger on the fertilities that an aligner found, with cross-entropy over words.

    Args:
        tagger: changed in place.
        config: epochs, batch size and learning rate.
        pairs: training pairs whose sources end in the sink.
        links: of each pair.
        sink: its id.
        seed: decides the order of the batches.
    """
    optimizer = torch.optim.Adam(tagger.parameters(), lr=config.learning_rate)
    for epoch in range(config.epochs):
        for indices in epoch_batches(source_lengths(pairs), config.batch_size, seed, epoch):
            batch = collate(pairs, indices)
            wanted = _classes(batch.source, sink, [links[n] for n in indices], config.classes)
            scores = tagger(batch.source, batch.source_mask)
            loss = cross_entropy(scores.transpose(1, 2), wanted, ignore_index=_IGNORED)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()


def _classes(source: Tensor, sink: int, links: Sequence[Links], classes: int) -> Tensor:
    """Fertility classes of a padded batch; the sink stands behind the last word."""
    wanted = torch.full(source.shape, _IGNORED)
    for row, words, found in zip(wanted, source, links, strict=True):
        length = int((words == sink).nonzero()[0])
        counts = torch.tensor(fertilities(found, length))
        row[:length] = counts.clamp(max=classes - 1)
    return wanted
