import pytest
import torch

from repro.config import ConfigError
from repro.config.compose import compose_run, group_choices
from repro.config.instantiate import build_loss, build_loss_mapping, build_mapping
from repro.config.schema import MappingConfig
from repro.mappings import entmax, sparsemax

SCORES = torch.tensor([[1.2, 0.3, -0.4, 0.0]])


@pytest.mark.parametrize("choice", group_choices("mapping"))
def test_every_mapping_choice_gives_distributions(choice: str) -> None:
    mapping = build_mapping(compose_run([f"mapping={choice}"]).mapping)
    torch.testing.assert_close(mapping(SCORES).sum(-1), torch.ones(1))


@pytest.mark.parametrize("choice", group_choices("loss"))
def test_every_loss_choice_has_the_gradient_of_its_mapping(choice: str) -> None:
    config = compose_run([f"loss={choice}"]).loss
    mapping = build_loss_mapping(config)
    scores = SCORES.clone().requires_grad_()
    build_loss(config, mapping, ignore_index=0)(scores, torch.tensor([2])).backward()
    expected = mapping(SCORES) - torch.tensor([[0.0, 0.0, 1.0, 0.0]])
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, expected)


def test_settings_reach_the_mapping() -> None:
    built = build_mapping(compose_run(["mapping=entmax", "mapping.alpha=1.25"]).mapping)
    torch.testing.assert_close(built(SCORES), entmax(SCORES, 1.25))
    built = build_mapping(compose_run(["mapping=sparsemax", "mapping.gamma=0.5"]).mapping)
    torch.testing.assert_close(built(SCORES), sparsemax(SCORES, gamma=0.5))


@pytest.mark.parametrize("name", ["hardmax", "csparsemax"])
def test_an_unknown_or_bounded_mapping_is_refused_with_the_choices(name: str) -> None:
    with pytest.raises(ConfigError, match="softmax, sparsemax, entmax"):
        build_mapping(MappingConfig(name=name))
