"""Structured losses against the enumeration of all structures: values and gradients."""

from collections.abc import Callable

import pytest
import torch
from every_structure import CASES, Case, spread
from torch import Tensor

from repro.losses.structured import (
    CRFLoss,
    MarginCRFLoss,
    MarginSparseMAPLoss,
    SparseMAPLoss,
    StructuredLoss,
    StructuredPerceptronLoss,
    StructuredSVMLoss,
)
from repro.structures import Arborescence, LinearChain, Matching

DOUBLE = torch.float64
KINDS: dict[str, Callable[..., StructuredLoss]] = {
    "perceptron": StructuredPerceptronLoss,
    "svm": StructuredSVMLoss,
    "crf": CRFLoss,
    "margin crf": MarginCRFLoss,
    "sparsemap": SparseMAPLoss,
    "margin sparsemap": MarginSparseMAPLoss,
}
MARGIN = {"svm", "margin crf", "margin sparsemap"}
SUPPORTED = [
    (case, kind) for case in CASES for kind in KINDS if not ("crf" in kind and "match" in case)
]
"""All cases and losses, but marginal inference in matchings, which is #P-complete."""
EVERY = pytest.mark.parametrize(
    ("name", "kind"), [pair for pair in spread(CASES, KINDS) if pair in SUPPORTED]
)


def make(name: str, kind: str, cost: float = 1.5, reduction: str = "none") -> StructuredLoss:
    settings: dict[str, object] = {"reduction": reduction}
    if kind in MARGIN:
        settings["cost"] = cost
    if "sparsemap" in kind:
        settings.update(max_iter=200, tol=1e-12)
    return KINDS[kind](CASES[name].structure, **settings)


def omega_conjugate(kind: str, case: Case, theta: Tensor) -> Tensor:
    """The maximum of ``θ'y - Ω(y)`` by enumeration, without any cost."""
    if "crf" in kind:
        return theta.logsumexp(-1)
    if "sparsemap" not in kind:
        return theta.amax(-1)
    return case.sparsemap(theta)[1]


def wrong_parts(case: Case, target: Tensor) -> Tensor:
    """Number of wrong parts of all structures, ``(B, D)``."""
    shared = case.unary.flatten(1) @ case.unary[target].flatten(1).mT
    return (case.unary.flatten(1).sum(-1, keepdim=True) - shared).mT


def enumerated_loss(kind: str, case: Case, theta: Tensor, target: Tensor, cost: float) -> Tensor:
    """The definition: ``Ω*(θ) + Ω(ȳ) - θ_ȳ`` with the cost inside the maximum."""
    if kind in MARGIN:
        theta = theta + cost * wrong_parts(case, target)
    omega = case.unary[target].flatten(1).square().sum(-1) / 2 if "sparsemap" in kind else 0.0
    chosen = theta.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return omega_conjugate(kind, case, theta) + omega - chosen


@pytest.mark.parametrize(("name", "kind"), SUPPORTED)
def test_values_by_enumeration(name, kind):
    case = CASES[name]
    unary, pairs = case.scores(4)
    unary[:2] *= 0.3
    unary[2:] *= 3
    target = torch.randint(len(case.vertices), (4,))
    actual = make(name, kind)(unary, case.vertices[target], additional=pairs)
    expected = enumerated_loss(kind, case, case.theta(unary, pairs), target, 1.5)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@EVERY
def test_gradients_by_finite_differences(name, kind):
    """Any gradient arrives from above; kinks of the piecewise linear losses have measure zero."""
    case = CASES[name]
    unary, pairs = case.scores(2)
    target = case.vertices[torch.randint(len(case.vertices), (2,))]
    points = [point.requires_grad_() for point in (unary, pairs) if point is not None]
    weights = torch.tensor([0.7, -1.3], dtype=DOUBLE)
    loss = make(name, kind)

    def total(*scores: Tensor) -> Tensor:
        extra = scores[1] if len(scores) > 1 else None
        return (loss(scores[0], target, additional=extra) * weights).sum()

    grads = torch.autograd.grad(total(*points), points)
    for grad, place in zip(grads, range(len(points)), strict=True):
        direction = torch.randn_like(points[place])
        ends = []
        for side in (1e-5, -1e-5):
            moved = [point.detach() for point in points]
            moved[place] = moved[place] + side * direction
            ends.append(total(*moved))
        slope = (ends[0] - ends[1]) / 2e-5
        assert slope.item() == pytest.approx((grad * direction).sum().item(), abs=1e-6)


@EVERY
def test_the_gradient_is_the_prediction_less_the_target(name, kind):
    case = CASES[name]
    unary, pairs = case.scores(3)
    target = torch.randint(len(case.vertices), (3,))
    unary.requires_grad_()
    loss = make(name, kind, cost=1.5)
    loss(unary, case.vertices[target], additional=pairs).sum().backward()
    gold = case.unary[target]
    augmented = unary.detach() + (1.5 * (1 - gold) if kind in MARGIN else 0)
    found = loss.predict(augmented, additional=pairs)
    torch.testing.assert_close(unary.grad, found.marginals - gold, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_make_padding_worthless(kind):
    loss = KINDS[kind](Arborescence(), reduction="none")
    scores = torch.randn(3, 6, 6, dtype=DOUBLE)
    target = torch.tensor([[0, 1, 1, 0, 4], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    lengths = torch.tensor([5, 2, 1])
    padded = loss(scores, target, lengths)
    for instance, length in enumerate(lengths.tolist()):
        inside = slice(0, length + 1)
        alone = loss(
            scores[instance : instance + 1, inside, inside],
            target[instance : instance + 1, :length],
        )
        torch.testing.assert_close(padded[instance], alone[0])


@pytest.mark.parametrize("kind", KINDS)
def test_large_scores_stay_finite(kind):
    loss = KINDS[kind](Arborescence(single_root=True))
    for scale in (50.0, 1e4):
        scores = (torch.randn(4, 21, 21) * scale).requires_grad_()
        chain = torch.arange(20).expand(4, -1)
        value = loss(scores, chain)
        value.backward()
        assert value.isfinite()
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_forbidden_target_costs_infinity(kind):
    scores = torch.randn(2, 4, 4, dtype=DOUBLE)
    scores[0, 1, 2] = -torch.inf
    scores.requires_grad_()
    target = torch.tensor([[0, 1, 2], [0, 1, 2]])
    losses = KINDS[kind](Arborescence(), reduction="none")(scores, target)
    assert losses[0] == torch.inf
    assert losses[1].isfinite()
    losses[1].backward()
    assert scores.grad.isfinite().all()


def test_reductions_and_dtypes():
    scores, target = torch.randn(3, 4, 4), torch.tensor([[0, 1, 2]]).expand(3, -1)
    each = CRFLoss(Arborescence(), reduction="none")(scores, target)
    assert each.dtype == torch.float32
    torch.testing.assert_close(CRFLoss(Arborescence())(scores, target), each.mean())
    torch.testing.assert_close(CRFLoss(Arborescence(), "sum")(scores, target), each.sum())
    low = CRFLoss(Arborescence(), reduction="none")(scores.bfloat16(), target)
    assert low.dtype == torch.bfloat16


def test_the_solution_is_there_for_statistics():
    scores = torch.randn(5, 6, 6)
    loss = SparseMAPLoss(Arborescence())
    found = loss.predict(scores, torch.full((5,), 5))
    assert found.solution.gap.shape == (5,)
    assert found.solution.converged.all()
    assert CRFLoss(Arborescence()).predict(scores).solution is None


def test_settings_are_checked():
    with pytest.raises(ValueError, match="reduction must be"):
        CRFLoss(Arborescence(), reduction="median")
    with pytest.raises(ValueError, match="cost must not be negative"):
        StructuredSVMLoss(Arborescence(), cost=-1.0)
    assert "cost=2.0" in repr(StructuredSVMLoss(Arborescence(), cost=2.0))


def test_heads_may_have_the_root_in_front():
    scores, heads = torch.randn(2, 4, 4), torch.tensor([[0, 1, 1], [2, 0, 7]])
    lengths = torch.tensor([3, 2])
    loss = SparseMAPLoss(Arborescence(), reduction="none")
    with_root = torch.nn.functional.pad(heads, (1, 0), value=-1)
    torch.testing.assert_close(loss(scores, heads, lengths), loss(scores, with_root, lengths))


def test_bad_targets_are_refused():
    scores, loss = torch.randn(2, 4, 4), CRFLoss(Arborescence())
    with pytest.raises(ValueError, match="integers"):
        loss(scores, torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"target \(2, 4\) expected"):
        loss(scores, torch.zeros(2, 5, dtype=torch.long))
    with pytest.raises(ValueError, match=r"instance 1: target \[-1, 0, 1, 4\] has entries outside"):
        loss(scores, torch.tensor([[0, 1, 1], [0, 1, 4]]))


@pytest.mark.parametrize(
    ("structure", "target", "lengths"),
    [
        (Arborescence(), [2, 1, 0], None),
        (Arborescence(), [1, 0, 0], None),
        (Arborescence(), [0, 3, 0], [3, 2]),  # the head is padding
        (Arborescence(), [0, -1, 0], None),
        (Arborescence(single_root=True), [0, 0, 1], None),
        (Matching(), [1, 2, 1, 0], None),  # two rows have one column
        (Matching(), [0, 1, 2, -1], None),  # a row and a column are left
        (Matching(), [0, 3, -1, -1], [[4, 4], [2, 3]]),  # the column is padding
        (LinearChain(), [0, 1, -1, 2], None),
    ],
)
def test_targets_that_are_not_structures_are_refused(structure, target, lengths):
    sizes = None if lengths is None else torch.tensor(lengths)
    right = [0, 1, 2] if isinstance(structure, Arborescence) else [0, 1, 2, 3]
    targets = torch.tensor([right, target])
    loss = SparseMAPLoss(structure, reduction="none")
    with pytest.raises(ValueError, match=f"instance 1: .*not a valid {type(structure).__name__}"):
        loss(torch.zeros(2, 4, 4), targets, sizes)
    assert loss(torch.zeros(2, 4, 4), targets[[0, 0]]).shape == (2,)


@pytest.mark.parametrize("structure", [LinearChain(), Arborescence()])
@pytest.mark.parametrize("lengths", [[5, 2], [-1, 2], [2.0, 2.0], [3]])
def test_bad_lengths_are_refused(structure, lengths):
    targets = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]])[
        :, : 4 - isinstance(structure, Arborescence)
    ]
    with pytest.raises(ValueError, match="length"):
        CRFLoss(structure)(torch.zeros(2, 4, 4), targets, torch.tensor(lengths))


@pytest.mark.parametrize("structure", [LinearChain(), Arborescence()])
def test_a_crf_without_an_allowed_structure_has_an_infinite_loss(structure):
    scores = torch.full((1, 3, 3), -torch.inf, requires_grad=True)
    target = torch.tensor([[0, 1] if isinstance(structure, Arborescence) else [0, 1, 1]])
    loss = CRFLoss(structure)(scores, target)
    loss.backward()
    assert loss == torch.inf
    assert torch.isfinite(scores.grad).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_crf_on_a_device_is_that_of_the_cpu():
    """Loss, gradients, their derivatives, and marginals."""
    unary, pairs = torch.randn(3, 4, 5, dtype=DOUBLE), torch.randn(3, 3, 5, 5, dtype=DOUBLE)
    target, lengths = torch.randint(5, (3, 4)), torch.tensor([4, 2, 3])
    loss, found = MarginCRFLoss(LinearChain()), list[list[Tensor]]()
    for device in ("cpu", "cuda"):
        points = [one.to(device).requires_grad_() for one in (unary, pairs)]
        value = loss(points[0], target.to(device), lengths, points[1], check_target=False)
        grads = torch.autograd.grad(value, points, create_graph=True)
        second = torch.autograd.grad(sum(one.square().sum() for one in grads), points)
        predicted = loss.predict(points[0], lengths, points[1])
        values = [value, *grads, *second, predicted.marginals, predicted.additional]
        assert {one.device.type for one in values} == {device}
        found.append([one.cpu() for one in values])
    torch.testing.assert_close(*found)


def test_a_solver_stopped_early_gives_a_smaller_loss_without_a_warning():
    scores, target = 0.1 * torch.randn(6, 12, 12, dtype=DOUBLE), torch.arange(11).expand(6, -1)
    short = SparseMAPLoss(Arborescence(), max_iter=3, reduction="none")
    early = short(scores, target)
    exact = SparseMAPLoss(Arborescence(), reduction="none")(scores, target)
    found = short.predict(scores)
    assert not found.solution.converged.any()
    assert (early < exact).all()
    assert (exact <= early + found.solution.gap + 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_targets_checked_before_need_no_check(kind, monkeypatch):
    loss = KINDS[kind](Arborescence(), reduction="none")
    scores = torch.randn(3, 5, 5, dtype=DOUBLE)
    lengths = torch.tensor([4, 2, 3])
    target = loss.structure.map(scores + torch.randn(3, 5, 5), lengths=lengths)
    expected = loss(scores, target, lengths)

    def refuse(*_: object) -> None:
        raise AssertionError("the target is checked")

    monkeypatch.setattr(loss.structure, "checked_target", refuse)
    assert torch.equal(loss(scores, target, lengths, check_target=False), expected)
