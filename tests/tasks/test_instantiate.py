import pytest
import torch

from repro.config import ConfigError
from repro.config.compose import compose_run
from repro.config.loading import group_choices
from repro.config.schema import FenchelYoungLossConfig, MappingConfig, StructuredLossConfig
from repro.config.schema.mapping import BoundedConfig
from repro.losses import FenchelYoungLoss
from repro.losses.structured import (
    CRFLoss,
    MarginCRFLoss,
    MarginSparseMAPLoss,
    SparseMAPLoss,
    StructuredPerceptronLoss,
    StructuredSVMLoss,
)
from repro.mappings import Entmax, SqPnormMax, csoftmax, csparsemax, entmax, normmax, sparsemax
from repro.structures import Arborescence, Matching
from repro.tasks.instantiate import (
    build_bounded_mapping,
    build_linear_loss,
    build_loss_mapping,
    build_mapping,
    build_structured_loss,
)
from repro.tasks.published_mappings import FistaPnormMax, PublishedEntmax

SCORES = torch.tensor([[1.2, 0.3, -0.4, 0.0]])


BOUNDED = {"csoftmax": csoftmax, "csparsemax": csparsemax}


@pytest.mark.parametrize("choice", sorted({*group_choices("mapping")} - {*BOUNDED}))
def test_every_mapping_choice_gives_distributions(choice):
    mapping = build_mapping(compose_run([f"mapping={choice}"]).mapping)
    torch.testing.assert_close(mapping(SCORES).sum(-1), torch.ones(1))


@pytest.mark.parametrize("choice", BOUNDED)
def test_every_bounded_choice_keeps_to_its_bounds(choice):
    config = compose_run(["task=nmt", f"mapping={choice}"]).mapping
    assert isinstance(config, BoundedConfig)
    upper = torch.tensor([[0.4, 0.4, 0.4, 0.4]])
    found = build_bounded_mapping(config)(SCORES, upper)
    torch.testing.assert_close(found, BOUNDED[choice](SCORES, upper))
    with pytest.raises(ConfigError, match="needs fertilities"):
        build_mapping(config)


STRUCTURED = {
    "crf": CRFLoss,
    "margin_crf": MarginCRFLoss,
    "margin_sparsemap": MarginSparseMAPLoss,
    "sparsemap": SparseMAPLoss,
    "structured_perceptron": StructuredPerceptronLoss,
    "structured_svm": StructuredSVMLoss,
}


@pytest.mark.parametrize("choice", sorted({*group_choices("loss")} - {*STRUCTURED}))
def test_every_loss_choice_has_the_gradient_of_its_mapping(choice):
    config = compose_run([f"loss={choice}"]).loss
    assert isinstance(config, FenchelYoungLossConfig)
    mapping = build_loss_mapping(config)
    scores = SCORES.clone().requires_grad_()
    FenchelYoungLoss(mapping)(scores, torch.tensor([2])).backward()
    expected = mapping(SCORES) - torch.tensor([[0.0, 0.0, 1.0, 0.0]])
    torch.testing.assert_close(scores.grad, expected)


@pytest.mark.parametrize("choice", STRUCTURED)
def test_every_structured_loss_choice_is_that_loss_of_each_instance(choice):
    config = compose_run(["task=parsing", f"loss={choice}"]).loss
    assert isinstance(config, StructuredLossConfig)
    loss = build_structured_loss(config, Arborescence())
    assert type(loss) is STRUCTURED[choice]
    assert (loss.cost > 0) == ("svm" in choice or "margin" in choice)
    scores = torch.zeros(2, 3, 3, dtype=torch.float64)
    losses = loss(scores, torch.tensor([[-1, 0, 1], [-1, 2, 0]]))
    assert losses.shape == (2,)
    assert (losses >= 0).all()


def test_settings_reach_the_structured_loss():
    config = compose_run(["task=parsing", "loss=margin_sparsemap", "loss.cost=0.25"]).loss
    assert isinstance(config, StructuredLossConfig)
    assert build_structured_loss(config, Arborescence()).cost == 0.25
    with pytest.raises(ConfigError, match=r"loss\.name is .hinge.; expected one of structured_"):
        build_structured_loss(StructuredLossConfig(name="hinge"), Arborescence())


def test_settings_reach_the_mapping():
    built = build_mapping(compose_run(["mapping=entmax", "mapping.alpha=1.25"]).mapping)
    torch.testing.assert_close(built(SCORES), entmax(SCORES, 1.25))
    built = build_mapping(compose_run(["mapping=normmax", "mapping.alpha=1.5"]).mapping)
    torch.testing.assert_close(built(SCORES), normmax(SCORES, 1.5))
    built = build_mapping(compose_run(["mapping=sparsemax", "mapping.gamma=0.5"]).mapping)
    torch.testing.assert_close(built(SCORES), sparsemax(SCORES, gamma=0.5))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["mapping=entmax"], Entmax),
        (["mapping=entmax", "mapping.solver=sort"], PublishedEntmax),
        (["mapping=entmax", "mapping.solver=bisection", "mapping.alpha=1.25"], PublishedEntmax),
        (["mapping=entmax", "mapping.solver=bisection", "mapping.alpha=1"], Entmax),
        (["mapping=sq_pnorm_max"], SqPnormMax),
        (["mapping=sq_pnorm_max", "mapping.solver=fista"], FistaPnormMax),
    ],
)
def test_a_solver_chooses_the_algorithm(overrides, expected):
    assert type(build_mapping(compose_run(overrides).mapping)) is expected


def test_a_solver_that_does_not_fit_is_refused():
    config = compose_run(["mapping=entmax", "mapping.solver=sort", "mapping.alpha=1.25"]).mapping
    with pytest.raises(ConfigError, match="alpha"):
        build_mapping(config)


def test_a_published_solver_keeps_its_own_loss():
    loss = compose_run(["loss=entmax", "loss.solver=bisection"]).loss
    assert isinstance(loss, FenchelYoungLossConfig)
    assert type(build_loss_mapping(loss)) is PublishedEntmax
    assert build_linear_loss(loss, -100) is None
    exact = compose_run(["loss=entmax"]).loss
    assert isinstance(exact, FenchelYoungLossConfig)
    assert build_linear_loss(exact, -100) is not None


@pytest.mark.parametrize("name", ["hardmax", "csparsemax"])
def test_an_unknown_or_bounded_mapping_is_refused_with_the_choices(name):
    with pytest.raises(ConfigError, match="softmax, sparsemax, entmax"):
        build_mapping(MappingConfig(name=name))


def test_a_loss_of_sums_needs_a_structure_that_has_them():
    loss = compose_run(["task=parsing", "loss=crf"]).loss
    assert isinstance(build_structured_loss(loss, Arborescence()), CRFLoss)
    with pytest.raises(ConfigError, match="log_partition"):
        build_structured_loss(loss, Matching())
