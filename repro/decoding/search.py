"""The loop that every search over prefixes runs: step the model, choose the rows that live on."""

from collections.abc import Callable

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary
from repro.decoding.hypothesis import FrozenTree, PrefixTree
from repro.decoding.protocol import StateT, StepModel

Extend = Callable[[Tensor, Tensor, PrefixTree], tuple[Tensor, Tensor]]
"""Rule by which the live prefixes are extended by one token.

It takes next-token distributions ``(N, V)``, a row per live prefix; the attention of the same rows,
``(N, S)``, or ``(N, 0)`` to keep none; and the tree, which receives the prefixes that stay. It
returns for each new live prefix the row it came from, ``(M,)``, and its last token, ``(M,)``.
"""


def grow(
    extend: Extend,
    model: StepModel[StateT],
    source: Tensor,
    source_mask: Tensor,
    max_length: int,
    keep_attention: bool,
    min_length: int = 0,
) -> FrozenTree:
    """Run a search until no prefix is live or ``max_length`` steps are done.

    Args:
        extend: method of a search that holds one empty prefix per sentence; updates it in place.
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
        probs = output.probs
        if step < min_length:  # what remains is not divided by its sum
            probs = probs.clone()
            probs[:, Vocabulary.EOS] = 0.0
        attention = output.attention if keep_attention else output.attention[:, :0]
        rows, previous = extend(probs, attention, tree)
        if not len(rows):
            break
        state = output.state.select(rows)
    return tree.freeze(source_mask if keep_attention else None)


def check_sizes(**sizes: int) -> None:
    """Raise ValueError naming the first size that is below one."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def begin(model: StepModel[StateT], source: Tensor, source_mask: Tensor) -> tuple[StateT, Tensor]:
    """Encode a batch.

    Args:
        model: in evaluation mode.
        source: token ids, ``(B, S)`` long.
        source_mask: ``(B, S)`` bool, True on real tokens.

    Returns:
        The first state and the first previous tokens, BOS, ``(B,)``.

    Raises:
        ValueError: if there is no sentence or the two shapes differ.
    """
    if source.ndim != 2 or not len(source) or source.shape != source_mask.shape:
        shapes = f"{tuple(source.shape)} and {tuple(source_mask.shape)}"
        raise ValueError(f"source and its mask must both be (B, S) with B >= 1, got {shapes}")
    previous = torch.full((len(source),), Vocabulary.BOS, device=source.device)
    return model.start(source, source_mask), previous


def log_probabilities(probs: Tensor) -> Tensor:
    """Take logarithms safely: float64, ``-inf`` for an exact zero, never above zero."""
    return probs.double().log().clamp(max=0.0)


def check_probabilities(probs: Tensor) -> None:
    """Raise ValueError if an entry is NaN, negative or above one by more than rounding."""
    least, most = (bound.item() for bound in torch.aminmax(probs))
    if not 0 <= least <= most <= 1 + 1e-4:
        raise ValueError("the model returned probabilities outside [0, 1] or NaN")


def most_probable(probs: Tensor, count: int) -> Tensor:
    """Find the most probable tokens of each row, the lower id first among equals.

    Nonnegative floats compare like their bit patterns, so pattern and id fit one integer key that
    no two tokens share. ``topk`` alone would leave the choice among equals to the device.

    Args:
        probs: ``(N, V)`` float32, nonnegative.
        count: tokens per row, at most ``V``.

    Returns:
        Token ids, ``(N, count)`` long, most probable first.
    """
    lower_first = torch.arange(probs.shape[1] - 1, -1, -1, device=probs.device)
    keys = probs.float().contiguous().view(torch.int32).long().clamp_(min=0)
    keys.bitwise_left_shift_(32).bitwise_or_(lower_first)
    return probs.shape[1] - 1 - (keys.topk(count, dim=1).values & 0xFFFFFFFF)
