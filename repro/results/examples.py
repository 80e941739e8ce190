"""Checks of the examples that a run saves for figures, applied whenever they are read.

Every check takes one row and raises :class:`ValueError` if no model can have produced it:
probabilities outside [0, 1], distributions that do not sum to one, wrong shapes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]
TOLERANCE = 1e-3


def check_attention(row: Row) -> None:
    """Check weights over a source or premise, or of an alignment in both directions."""
    if "premise_to_hypothesis" not in row:
        weights = np.asarray(row["weights"], dtype=float)
        words = row.get("source", row.get("premise"))
        lines = [len(row["output"])] if "output" in row else []
        # Tasks of extensions may name their words otherwise; the shape is then unknown.
        _check_weights(weights, None if words is None else (*lines, len(words)))
        _check_sums(weights)
        return
    m, n, structures = len(row["premise"]), len(row["hypothesis"]), row["structures"]
    symmetrical = structures.keys() == {"premise_to_hypothesis"}
    for name, shape in (("premise_to_hypothesis", (m, n)), ("hypothesis_to_premise", (n, m))):
        weights = np.asarray(row[name], dtype=float)
        _check_weights(weights, shape)
        if not symmetrical:  # a word of the longer sentence may have no partner in a matching
            _check_sums(weights)
        found = structures.get(name, [])
        for one in found:
            inside = all(-1 <= partner < shape[1] for partner in one["partners"])
            _require(inside and len(one["partners"]) == shape[0], f"wrong partners in {name}")
        if found:
            _check_sums(np.asarray([one["weight"] for one in found], dtype=float))


def check_hypotheses(row: Row) -> None:
    """Check output strings and the probabilities of their steps; a complete set sums to one."""
    total = 0.0
    for one in row["hypotheses"]:
        symbols = [token for token in one["tokens"] if token != "</s>"]
        extra = len(one["steps"]) - len(symbols)
        _require(extra in (0, 1), f"{symbols} has {len(one['steps'])} steps")
        _check_weights(np.asarray([one["probability"], *one["steps"]], dtype=float), None)
        _require(extra == 1 or not row["finite"], f"{symbols} of a complete set is unfinished")
        total += one["probability"]
    kind = "complete" if row["finite"] else "incomplete"
    right = total <= 1 + TOLERANCE and (total >= 1 - TOLERANCE or not row["finite"])
    _require(right, f"the {kind} set has total probability {total:.4f}")


def check_candidates(row: Row) -> None:
    """Check a gold tree and weighted candidate trees, each with one head per word."""
    count = len(row["words"])
    for heads in (row["gold"], *(one["heads"] for one in row["candidates"])):
        inside = len(heads) == count and all(0 <= head <= count for head in heads)
        _require(inside, f"expected {count} heads among the words, found {heads}")
    weights = np.asarray([one["weight"] for one in row["candidates"]], dtype=float)
    _require(weights.size > 0 and weights.min() > 0, f"the weights {weights} are not positive")
    _check_sums(weights)


def check_forced(row: Row) -> None:
    """Check probabilities along a target, with the most probable alternatives of each step."""
    _require(len(row["target"]) == len(row["steps"]) > 0, "expected a step for each symbol")
    for target, step in zip(row["target"], row["steps"], strict=True):
        named, support = dict(step["alternatives"]), step["support"]
        shares = np.asarray([step["probability"], *named.values()], dtype=float)
        _check_weights(shares, None)
        total = sum(named.values())
        _require(1 <= len(named) <= support, f"{len(named)} alternatives of {support}")
        _require(total <= 1 + TOLERANCE, f"alternatives sum to {total:.4f}")
        complete = len(named) == support
        _require(total >= 1 - TOLERANCE or not complete, f"all of them sum to {total:.4f}")
        known = named.get(target, 0.0 if complete else step["probability"])
        same = abs(known - step["probability"]) <= TOLERANCE
        _require(same, f"{target!r} has two probabilities")


EXAMPLE_CHECKS = {
    "attention": check_attention,
    "hypotheses": check_hypotheses,
    "candidates": check_candidates,
    "forced": check_forced,
}
"""Checks by stem of the file ``<name>.jsonl`` in a run folder."""


def _check_weights(weights: np.ndarray, shape: Sequence[int] | None) -> None:
    if shape is not None:
        _require(weights.shape == tuple(shape), f"expected {shape} weights, not {weights.shape}")
    # All must be inside, not none outside: NaN has to fail as well.
    inside = bool(((weights >= 0) & (weights <= 1 + TOLERANCE)).all())
    _require(inside, "a probability lies outside of [0, 1]")


def _check_sums(weights: np.ndarray) -> None:
    sums = np.atleast_1d(weights.sum(-1))
    wrong = ~(np.abs(sums - 1) <= TOLERANCE)
    _require(not wrong.any(), f"weights sum to {sums[wrong][:1]}, not to one")


def _require(right: bool, message: str) -> None:
    if not right:
        raise ValueError(message)
