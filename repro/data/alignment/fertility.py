"""How many target words a source word is linked to."""

from collections.abc import Iterable, Sequence

from repro.data.alignment.symmetry import Links


def fertilities(links: Links, length: int) -> list[int]:
    """Number of links of each of ``length`` source positions.

    Raises:
        ValueError: a link lies outside the sentence.
    """
    counts = [0] * length
    for j, _ in links:
        if not 0 <= j < length:
            raise ValueError(f"source position {j} lies outside a sentence of {length} words")
        counts[j] += 1
    return counts


def largest_fertilities(
    sentences: Iterable[Sequence[str]], alignments: Iterable[Links]
) -> dict[str, int]:
    """The largest fertility of every word, at least 1.

    Args:
        sentences: source sentences.
        alignments: the links of each.

    References:
        Malaviya et al. (2018), §4, GUIDED: the largest value observed in the training data, or 1
        if no alignment was observed.
    """
    largest: dict[str, int] = {}
    for words, links in zip(sentences, alignments, strict=True):
        for word, count in zip(words, fertilities(links, len(words)), strict=True):
            largest[word] = max(largest.get(word, 1), count)
    return largest
