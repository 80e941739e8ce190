"""Targets of structured losses: structures as integers, one vector for each instance."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.structures import Arborescence, Structure


def checked_target(
    structure: Structure, target: Tensor, scores: Tensor, lengths: Tensor | None
) -> Tensor:
    """Bring a target into the form of ``structure.map``: -1 at everything that does not exist.

    Args:
        structure: what the target is an instance of.
        target: ``(B, V)``, ``long``; heads of trees with or without the root in front.
        scores: unary scores, ``(B, R, C)``.
        lengths: sizes of the instances, or None.

    Raises:
        ValueError: the target has another shape or type, or an entry out of range.
    """
    tree = isinstance(structure, Arborescence)
    if target.dtype != torch.long:
        raise ValueError(f"the target must hold integers (torch.long), not {target.dtype}")
    if tree and target.dim() == 2 and target.size(1) == scores.size(1) - 1:
        target = pad(target, (1, 0), value=-1)
    if target.shape != scores.shape[:2]:
        raise ValueError(
            f"target {tuple(scores.shape[:2])} expected for scores {tuple(scores.shape)}, "
            f"got {tuple(target.shape)}"
        )
    vertex = target.masked_fill(~_exists(tree, target, lengths), -1)
    _check_range(vertex, scores.size(1 if tree else 2))
    return vertex


def _exists(tree: bool, target: Tensor, lengths: Tensor | None) -> Tensor:
    """Which entries stand for something that is decided: items, words, rows."""
    places = torch.arange(target.size(1), device=target.device)
    inside = (places >= int(tree)).expand_as(target)
    if lengths is None:
        return inside
    sizes = lengths.to(target.device).view(len(target), -1)[:, :1]
    return inside & (places < sizes + int(tree))


def _check_range(vertex: Tensor, values: int) -> None:
    wrong = ((vertex < -1) | (vertex >= values)).any(-1).nonzero()
    if wrong.numel():
        first = int(wrong[0])
        raise ValueError(
            f"instance {first}: target {vertex[first].tolist()} has entries outside 0..{values - 1}"
        )
