"""Targets of structured losses: structures as integers, one vector for each instance."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.mappings._masking import under_vmap
from repro.structures import Arborescence, Matching, Structure


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
        ValueError: the target has another shape or type, an entry out of range, heads that make no
            tree, or two rows of a matching with one column.
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
    exists = _exists(tree, target, lengths)
    vertex = target.masked_fill(~exists, -1)
    _check_range(vertex, scores.size(1 if tree else 2))
    if isinstance(structure, Arborescence):
        _refuse(vertex, _is_no_tree(vertex, exists, structure.single_root), "is no tree")
    if isinstance(structure, Matching):
        _refuse(vertex, _is_no_matching(vertex), "gives one column to two rows")
    return vertex


def _exists(tree: bool, target: Tensor, lengths: Tensor | None) -> Tensor:
    """Mask of the entries that are decided: items, words, rows."""
    places = torch.arange(target.size(1), device=target.device)
    inside = (places >= int(tree)).expand_as(target)
    if lengths is None:
        return inside
    sizes = lengths.to(target.device).view(len(target), -1)[:, :1]
    return inside & (places < sizes + int(tree))


def _check_range(vertex: Tensor, values: int) -> None:
    wrong = ((vertex < -1) | (vertex >= values)).any(-1)
    _refuse(vertex, wrong, f"has entries outside 0..{values - 1}")


def _is_no_tree(vertex: Tensor, exists: Tensor, single_root: bool) -> Tensor:
    """Instances with a word whose heads, followed upwards, do not lead to the root."""
    own = torch.arange(vertex.size(1), device=vertex.device).expand_as(vertex)
    heads = torch.where(vertex < 0, own, vertex)
    for _ in range(vertex.size(1).bit_length()):  # twice as many steps every time
        heads = heads.gather(1, heads)
    astray = (exists & (heads != 0)).any(-1)
    return astray | ((vertex == 0).sum(-1) > 1) if single_root else astray


def _is_no_matching(vertex: Tensor) -> Tensor:
    columns = vertex.sort(-1).values
    return ((columns[:, 1:] == columns[:, :-1]) & (columns[:, 1:] >= 0)).any(-1)


def _refuse(vertex: Tensor, wrong: Tensor, why: str) -> None:
    """Raise for the first wrong instance; under ``torch.func.vmap`` values cannot be read."""
    if under_vmap(wrong):
        return
    found = wrong.nonzero()
    if found.numel():
        first = int(found[0])
        raise ValueError(f"instance {first}: target {vertex[first].tolist()} {why}")
