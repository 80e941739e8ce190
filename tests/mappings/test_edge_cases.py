"""Infinities, NaN, masks, half precision, empty rows and bad arguments."""

import math

import numpy as np
import pytest
import torch
from plain import plain
from tolerances import ABSOLUTE, ADVERSARIAL, GRADIENT, SUM, assert_close

from repro.mappings import MAPPINGS, LearnedAlphaEntmax, budget, entmax, normmax
from repro.mappings.kernels import dispatch

INF = math.inf
FUNCTIONS = {name: plain(spec.function, spec) for name, spec in MAPPINGS.items()}
FUNCTIONS["entmax-1.25"] = lambda scores, **how: entmax(scores, 1.25, **how)
FUNCTIONS["entmax-tensor"] = lambda scores, **how: entmax(scores, torch.tensor(1.3), **how)
FUNCTIONS["entmax-3"] = lambda scores, **how: entmax(scores, 3.0, **how)
EXCHANGEABLE = [n for n in FUNCTIONS if n not in MAPPINGS or not MAPPINGS[n].sequential]


@pytest.fixture(params=FUNCTIONS.values(), ids=FUNCTIONS)
def function(request):
    return request.param


def test_bad_rows_keep_to_themselves(function):
    """All forbidden, an infinity, a NaN: three bad rows leave the fourth untouched."""
    good = torch.tensor([0.3, -0.2, 0.1])
    scores = torch.stack(
        [
            torch.full((3,), -INF),
            torch.tensor([INF, 0.0, INF]),
            torch.tensor([math.nan, 0.0, 1.0]),
            good,
        ]
    )
    probs = function(scores)
    assert torch.equal(probs[0], torch.zeros(3))
    assert torch.equal(probs[1], torch.tensor([0.5, 0.0, 0.5]))
    assert probs[2].isnan().all()
    assert torch.equal(probs[3], function(good))


def test_devices_without_double_precision(monkeypatch, function):
    """An MPS device, here the CPU without the functions of tensors that such devices refuse."""
    scores = torch.randn(5, 40, requires_grad=True)
    weights = torch.linspace(-1, 1, 40)
    expected = function(scores.double())
    (expected_grad,) = torch.autograd.grad((expected * weights).sum(), scores)

    def refuse(*_):
        raise TypeError("no float64")

    monkeypatch.setattr(dispatch, "has_kernel", lambda tensor: False)
    for module in ("_box", "_entmax", "_grouped", "_norm"):
        monkeypatch.setattr(f"repro.mappings.{module}.in_double", lambda tensor: tensor)
    monkeypatch.setattr(torch.Tensor, "double", refuse)
    found = function(scores)
    (grad,) = torch.autograd.grad((found * weights).sum(), scores)
    monkeypatch.undo()
    assert_close(found, expected, ADVERSARIAL)
    assert_close(grad, expected_grad, GRADIENT)


def test_a_row_with_nothing_allowed_has_zero_gradient(function):
    scores = torch.tensor([[0.3, -0.2, 0.1, 0.0]] * 2, requires_grad=True)
    mask = torch.tensor([[False] * 4, [True] * 4])
    function(scores, mask=mask).square().sum().backward()
    assert torch.equal(scores.grad[0], torch.zeros(4))
    assert scores.grad[1].abs().sum() > 0


@pytest.mark.parametrize("size", [1e8, 3e4])
def test_scores_of_any_size(function, size):
    probs = function(torch.tensor([[size, 0.0, -size], [size, size, 0.0]]))
    assert torch.equal(probs, torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))


@pytest.mark.parametrize("low", [-1e9, torch.finfo(torch.float32).min, -INF])
@pytest.mark.parametrize("name", EXCHANGEABLE)
def test_every_usual_way_to_mask(name, low):
    function = FUNCTIONS[name]
    scores = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    masked = torch.cat([scores, torch.full((6, 3), low)], -1)
    probs = function(masked)
    assert torch.equal(probs[:, 5:], torch.zeros(6, 3))
    assert_close(probs[:, :5], function(scores), {torch.float32: 4 * ABSOLUTE[torch.float32]})


def test_forbidden_stays_zero_beside_the_lowest_number(function):
    scores = torch.tensor([-INF, torch.finfo(torch.float32).min])
    assert torch.equal(function(scores), torch.tensor([0.0, 1.0]))


def test_nan_under_the_mask_is_not_seen(function):
    scores = torch.tensor([0.5, math.nan, 0.0])
    mask = torch.tensor([True, False, True])
    assert_close(function(scores, mask=mask).sum(), torch.tensor(1.0), SUM)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [50, 2000])
def test_half_types_are_computed_in_single_precision(function, dtype, size):
    generator = torch.Generator().manual_seed(size)
    scores = torch.randn(20, size, generator=generator).to(dtype).requires_grad_()
    probs = function(scores)
    assert probs.dtype == dtype
    assert torch.equal(probs, function(scores.float()).to(dtype))
    assert_close(probs.double().sum(-1).to(dtype), torch.ones(20), SUM)
    probs.backward(torch.randn(20, size, generator=generator).to(dtype))
    assert scores.grad.dtype == dtype
    assert scores.grad.double().sum(-1).abs().max() < SUM[dtype]


def test_half_types_far_from_zero(function):
    scores = (torch.randn(5, 20) - 1000).bfloat16()
    assert_close(function(scores), function(scores.double()), ABSOLUTE)


def test_autocast_changes_nothing(function):
    scores = torch.randn(3, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = function(scores)
    assert torch.equal(inside, function(scores))


def test_empty_and_single(function):
    assert function(torch.empty(3, 0)).shape == (3, 0)
    assert function(torch.empty(0, 4)).shape == (0, 4)
    assert torch.equal(function(torch.randn(3, 1)), torch.ones(3, 1))
    empty = torch.empty(3, 0, requires_grad=True)
    function(empty).sum().backward()
    assert empty.grad.shape == (3, 0)


@pytest.mark.parametrize("function", [entmax, normmax, budget])
def test_no_scores_and_a_tensor_as_parameter(function):
    for parameter in (torch.tensor(1.5), torch.full((3, 1), 1.5)):
        assert function(torch.empty(3, 0), parameter).shape == (3, 0)


def test_the_input_is_not_changed(function):
    scores = torch.randn(4, 5)
    before = scores.clone()
    function(scores)
    assert torch.equal(scores, before)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_scores_must_be_floating(function, dtype):
    with pytest.raises(TypeError, match="floating point"):
        function(torch.ones(3, dtype=dtype))


@pytest.mark.parametrize("scores", [[0.5, 0.0], np.zeros(2), None], ids=["list", "array", "None"])
@pytest.mark.parametrize("spec", MAPPINGS.values(), ids=MAPPINGS)
def test_scores_must_be_a_tensor(spec, scores):
    arguments = (scores, torch.ones(2)) if spec.bounded else (scores,)
    kind = type(scores).__name__
    with pytest.raises(TypeError, match=f"scores must be a floating point tensor, got {kind}"):
        spec.function(*arguments)


def test_scalar_and_wrong_dim_are_refused(function):
    with pytest.raises(ValueError, match="at least one dimension"):
        function(torch.tensor(1.0))
    with pytest.raises(IndexError, match="dim=2"):
        function(torch.ones(2, 3), dim=2)


def test_wrong_masks_are_refused(function):
    with pytest.raises(TypeError, match="boolean"):
        function(torch.ones(2, 3), mask=torch.ones(2, 3))
    for mask in ([True, False, True], np.ones(3, dtype=bool)):
        kind = type(mask).__name__
        with pytest.raises(TypeError, match=rf"mask must be boolean .*, got {kind}"):
            function(torch.ones(2, 3), mask=mask)
    for shape in ((3, 2), (2, 2, 3), (2,)):
        with pytest.raises(ValueError, match="does not broadcast"):
            function(torch.ones(2, 3), mask=torch.ones(shape, dtype=torch.bool))


def test_learned_alpha_arguments():
    with pytest.raises(ValueError, match="heads must be at least 1"):
        LearnedAlphaEntmax(0)
    with pytest.raises(ValueError, match="strictly between 1 and 2"):
        LearnedAlphaEntmax(alpha=2.0)
