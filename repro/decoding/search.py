"""The loop that every search over prefixes runs: step the model, choose the rows that live on."""

from typing import Protocol

from torch import Tensor

from repro.decoding.hypothesis import FrozenTree, PrefixTree
from repro.decoding.protocol import StateT, StepModel
from repro.decoding.stepping import begin, check_probabilities, without_end


class Search(Protocol):
    """A rule that says which extensions of the live prefixes are kept."""

    def extend(self, probs: Tensor, attention: Tensor, tree: PrefixTree) -> tuple[Tensor, Tensor]:
        """Extend the live prefixes by one token.

        Args:
            probs: next-token distributions, ``(N, V)``, a row per live prefix.
            attention: attention of the same rows, ``(N, S)``; ``(N, 0)`` to keep none.
            tree: receives the prefixes that stay.

        Returns:
            For each new live prefix the row it came from, ``(M,)``, and its last token, ``(M,)``.
        """
        ...


def grow(
    search: Search,
    model: StepModel[StateT],
    source: Tensor,
    source_mask: Tensor,
    max_length: int,
    keep_attention: bool,
    min_length: int = 0,
) -> FrozenTree:
    """Run a search until no prefix is live or ``max_length`` steps are done.

    Args:
        search: holds one empty prefix per sentence; it is updated in place.
        model: in evaluation mode.
        source: token ids, ``(B, S)`` long.
        source_mask: ``(B, S)`` bool, True on real tokens.
        max_length: most steps, at least one.
        keep_attention: whether the tree keeps the attention of every step.
        min_length: EOS has no probability in steps before this one, counted from one.

    Returns:
        The tree of all prefixes that the search kept.
    """
    tree = PrefixTree()
    state, previous = begin(model, source, source_mask)
    for step in range(1, max_length + 1):
        output = model.step(state, previous)
        check_probabilities(output.probs)
        probs = without_end(output.probs) if step < min_length else output.probs
        attention = output.attention if keep_attention else output.attention[:, :0]
        rows, previous = search.extend(probs, attention, tree)
        if not len(rows):
            break
        state = output.state.select(rows)
    return tree.freeze(source_mask if keep_attention else None)
