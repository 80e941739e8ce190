"""The page on adding a structure: its files, unchanged, in a folder of their own."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise, product

import numpy as np
import pytest
import torch
from every_structure import all_trees
from torch import Tensor
from torch.nn.functional import one_hot
from tutorial import Page

from repro.losses.structured import CRFLoss, SparseMAPLoss, StructuredPerceptronLoss
from repro.structures import STRUCTURES, Structure, sparsemap

TINY = [
    "hardware=cpu", "data.train_premises=10", "model.vector_size=4", "model.hidden_size=3",
    "training.max_epochs=1", "task.stored_examples=5",
]  # fmt: skip
TINY_PARSER = [
    "hardware=cpu", "model.word_size=4", "model.tag_size=2", "model.lstm_size=4",
    "model.arc_size=4", "training.max_steps=3", "task.stored_examples=5", "task.compared=0",
    "task.candidate_iterations=20",
]  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page("add-a-structure.md", tmp_path_factory.mktemp("page"))


def declared(page: Page, name: str) -> Callable[..., Structure]:
    """The class of a structure of the page."""
    torch.manual_seed(0)
    names: dict[str, dict[str, type[Structure]]] = {}
    exec(page.files[f"repro/structures/{name}.py"], names)  # type: ignore[arg-type]
    return names["STRUCTURES"][name]


@pytest.fixture(scope="module")
def structure(page: Page) -> Structure:
    return declared(page, "monotone")()


def every_alignment(rows: int, columns: int) -> Tensor:
    """All sets of pairs that increase in both positions, ``(D, rows, columns)``."""
    found = []
    for size in range(min(rows, columns) + 1):
        for chosen in product(combinations(range(rows), size), combinations(range(columns), size)):
            parts = torch.zeros(rows, columns, dtype=torch.float64)
            parts[chosen] = 1
            found.append(parts)
    return torch.stack(found)


def projective(heads: tuple[int, ...]) -> bool:
    """Whether no two arcs of a tree cross."""
    arcs = [sorted(arc) for arc in enumerate(heads, start=1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_each_is_new_and_takes_two_files(page):
    assert len(page.files) == 2 * 2
    assert STRUCTURES.keys().isdisjoint({"monotone", "projective"})


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (1, 4)])
def test_the_oracle_finds_the_best_of_all_alignments(structure, shape):
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


def test_sparsemap_and_losses_by_enumeration(structure):
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


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("words", [1, 2, 4])
def test_trees_by_enumeration(page, words, single_root):
    trees, size = declared(page, "projective")(single_root), words + 1
    heads = [tree for tree in all_trees(words, single_root) if projective(tree)]
    every = one_hot(torch.tensor(heads), size).mT.double()
    every = torch.cat([torch.zeros(len(heads), size, 1), every], 2)
    scores = torch.randn(6, size, size, dtype=torch.float64, requires_grad=True)
    padded = torch.randn(6, size + 2, size + 2, dtype=torch.float64)
    padded[:, :size, :size] = scores.detach()
    lengths, values = torch.tensor([words] * 6), torch.einsum("bij,dij->bd", scores, every)
    best = trees.map(padded, lengths=lengths)
    assert best[:, 1:size].tolist() == [list(heads[one]) for one in values.argmax(1)]
    assert (best[:, size:] == -1).all()
    total = trees.log_partition(padded, lengths=lengths)
    torch.testing.assert_close(total, values.logsumexp(1))
    expected = torch.einsum("bd,dij->bij", values.softmax(1), every)
    torch.testing.assert_close(trees.marginals(scores)[0], expected)
    solution = sparsemap(trees, scores)
    assert solution.converged.all()
    lowered = torch.einsum("bij,dij->bd", scores - solution.marginals, every)
    mean = ((scores - solution.marginals) * solution.marginals).sum((1, 2))
    assert (lowered.amax(1) - mean).max() < 1e-9
    shift = torch.zeros(size, size, dtype=torch.float64, requires_grad=True)  # of all six at once
    assert torch.autograd.gradcheck(
        lambda s: sparsemap(trees, scores.detach() + s).marginals, shift
    )
    for loss in (SparseMAPLoss, CRFLoss):
        of_heads = loss(trees, reduction="none")(scores, torch.tensor(heads[:1] * 6))
        assert (of_heads >= 0).all()


def test_targets_that_cross_are_refused(page):
    loss, scores = SparseMAPLoss(declared(page, "projective")()), torch.zeros(1, 5, 5)
    with pytest.raises(ValueError, match="is not a valid Projective"):
        loss(scores, torch.tensor([[3, 4, 0, 3]]))


def test_its_commands_run(page):
    for command in page.commands:
        page.tiny = TINY if "task=nli_alignment" in command else TINY_PARSER
        page.succeed(*[item.replace("seed=1,2", "seed=1") for item in command])
    assert {one.status for one in page.runs()} == {"done"}
    page.tiny = ()
    errors = page.refuse(*page.commands[0], "model.alignment=matching")
    assert "expected 'words', because structure=monotone aligns" in errors
    for task, wrong in (("parsing", "monotone"), ("nli_alignment", "projective")):
        assert wrong in page.refuse("run", f"task={task}", f"structure={wrong}")
    trees, others = [], []
    for one in page.runs():
        parsed = one.read_record().settings["task.name"] == "parsing"
        (trees if parsed else others).append(one)
    names = Counter(one.read_record().settings.get("structure.name") for one in trees)
    assert names == {"projective": 2, None: 2}
    for one in trees:
        if one.read_record().settings.get("structure.name"):
            text = (one.predictions / "test.conllu").read_text("utf-8").strip().split("\n\n")
            for sentence in text:
                rows = [line.split("\t") for line in sentence.split("\n") if line[0] != "#"]
                heads = tuple(int(row[6]) for row in rows)
                assert projective(heads)
                assert heads.count(0) == 1
    records = {one.read_record().settings.get("structure.name"): one for one in others}
    assert set(records) == {"monotone", None}
    assert records[None].read_record().settings["model.alignment"] == "matching"
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
