"""The page on adding a structure: its files, unchanged, in a folder of their own."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
import torch
from torch import Tensor
from tutorial import Page

from repro.losses.structured import SparseMAPLoss, StructuredPerceptronLoss
from repro.structures import STRUCTURES, Structure, sparsemap

TINY = [
    "hardware=cpu", "data.train_premises=10", "model.vector_size=4", "model.hidden_size=3",
    "training.max_epochs=1", "task.stored_examples=5",
]  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page("add-a-structure.md", tmp_path_factory.mktemp("page"), *TINY)


@pytest.fixture(scope="module")
def structure(page: Page) -> Structure:
    torch.manual_seed(0)
    names: dict[str, dict[str, type[Structure]]] = {}
    exec(page.files["repro/structures/monotone.py"], names)  # type: ignore[arg-type]
    return names["STRUCTURES"]["monotone"]()


def every_alignment(rows: int, columns: int) -> Tensor:
    """All sets of pairs that increase in both positions, ``(D, rows, columns)``."""
    found = []
    for size in range(min(rows, columns) + 1):
        for chosen in product(combinations(range(rows), size), combinations(range(columns), size)):
            parts = torch.zeros(rows, columns, dtype=torch.float64)
            parts[chosen] = 1
            found.append(parts)
    return torch.stack(found)


def test_it_is_new_and_takes_two_files(page: Page) -> None:
    assert len(page.files) == 2
    assert "monotone" not in STRUCTURES


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (1, 4)])
def test_the_oracle_finds_the_best_of_all_alignments(
    structure: Structure, shape: tuple[int, int]
) -> None:
    scores = torch.randn(20, *shape, dtype=torch.float64)
    every = every_alignment(*shape)
    values = torch.einsum("bij,dij->bd", scores, every)
    parts = structure.best(scores, None)
    torch.testing.assert_close(parts, every[values.argmax(1)])
    padded = torch.randn(20, shape[0] + 1, shape[1] + 2, dtype=torch.float64)
    padded[:, : shape[0], : shape[1]] = scores
    found = structure.map(padded, lengths=torch.tensor([shape]).expand(20, -1))
    inside = structure.indicator(found, padded)
    torch.testing.assert_close(inside[:, : shape[0], : shape[1]], parts)
    assert inside.sum() == parts.sum()


def test_sparsemap_and_losses_by_enumeration(structure: Structure) -> None:
    scores, every = torch.randn(4, 3, 3, dtype=torch.float64), every_alignment(3, 3)
    scores.requires_grad_()
    solution = sparsemap(structure, scores)
    assert solution.converged.all()
    lowered = torch.einsum("bij,dij->bd", scores - solution.marginals, every)
    mean = ((scores - solution.marginals) * solution.marginals).sum((1, 2))
    assert (lowered.amax(1) - mean).max() < 1e-9  # the gap, by its definition
    assert torch.autograd.gradcheck(lambda s: sparsemap(structure, s).marginals, scores)
    target = every[torch.tensor([0, 5, 9, 19])].long()
    scored = (scores * target).sum((1, 2))
    best = torch.einsum("bij,dij->bd", scores, every).amax(1)
    loss = StructuredPerceptronLoss(structure, reduction="none")(scores, target)
    torch.testing.assert_close(loss, best - scored)
    u = solution.marginals
    mixed = (scores * u - u.square() / 2).sum((1, 2)) + target.square().sum((1, 2)) / 2
    loss = SparseMAPLoss(structure, reduction="none")(scores, target)
    torch.testing.assert_close(loss, mixed - scored)
    with pytest.raises(ValueError, match="is not a valid Monotone"):
        SparseMAPLoss(structure)(scores[:1], torch.eye(3).long().flip(0)[None])


def test_its_commands_run(page: Page) -> None:
    for command in page.commands:
        page.succeed(*[item.replace("seed=1,2", "seed=1") for item in command])
    errors = page.refuse(*page.commands[0], "model.alignment=matching")
    assert "expected 'words', because structure=monotone aligns" in errors
    records = {one.read_record().settings["structure.name"]: one for one in page.runs()}
    assert set(records) == {"monotone", "matching"}
    for one in page.runs():
        assert one.status == "done"
    rows = records["monotone"].read_attention()
    for row in rows:
        weights = np.array(row["premise_to_hypothesis"])
        mixed = np.zeros_like(weights)
        for one in row["structures"]["premise_to_hypothesis"]:
            partners = [(i, j) for i, j in enumerate(one["partners"]) if j >= 0]
            assert all(a[1] < b[1] for a, b in pairwise(partners))
            for place in partners:
                mixed[place] += one["weight"]
        np.testing.assert_allclose(mixed, weights, atol=1e-4)
