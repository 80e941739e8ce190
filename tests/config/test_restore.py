"""The configuration of a run, restored from its file whatever its groups are."""

import re

import pytest

from repro.config import ConfigError
from repro.config.compose import compose_run, to_yaml
from repro.config.identity import settings
from repro.config.restore import restore_run

RUNS = {
    "normmax": ["task=snli", "mapping=normmax", "mapping.alpha=3", "loss=entmax", "loss.alpha=1.2"],
    "learned": ["task=morphology", "mapping=learned_alpha_entmax", "loss=cross_entropy"],
    "bounded": ["task=nmt", "mapping=csparsemax", "loss=sparsemax", "scale=small", "seed=3"],
    "parser": ["task=parsing", "loss=margin_sparsemap", "loss.max_iter=7"],
    "quoted": ["task=nmt", "mapping=sq_pnorm_max", "data.source=xx", "task.shown=['say \"x\", y']"],
}


@pytest.mark.parametrize("name", RUNS)
def test_a_configuration_survives_its_file(name, tmp_path):
    config = compose_run([*RUNS[name], "hardware=cpu", f"results_dir={tmp_path}"])
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config), "utf-8")
    restored = restore_run(path, ["hardware=auto"])
    assert type(restored) is type(config)
    assert type(restored.mapping) is type(config.mapping)
    assert type(restored.loss) is type(config.loss)
    assert settings(restored) == settings(config)
    assert restored.hardware.device == "auto"
    assert restored.results_dir != config.results_dir


def test_values_are_replaced_and_checked(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(compose_run(["task=nmt"])), "utf-8")
    changed = restore_run(path, ["decoding.beam_size=9", "decoding.length_penalty=0.5"])
    assert (changed.decoding.beam_size, changed.decoding.length_penalty) == (9, 0.5)
    for override, message in (
        ("decoding.beam_size=x", "^decoding.beam_size is 'x'"),
        ("decoding.beam_size=0", "decoding.beam_size is 0"),
        ("decoding.width=3", "unknown key 'width'"),
    ):
        with pytest.raises(ConfigError, match=message):
            restore_run(path, [override])
    path.write_text(path.read_text("utf-8").replace("beam_size", "beam"), "utf-8")
    with pytest.raises(ConfigError, match="decoding: unknown beam"):
        restore_run(path, [])
    path.write_text(to_yaml(compose_run(["task=nmt"])).replace("seed: 1\n", "seed: 2024-13-45\n"))
    with pytest.raises(ConfigError, match="seed is '2024-13-45'"):  # a date that there is not
        restore_run(path, [])
    path.write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected the configuration of a run"):
        restore_run(path, [])


def test_what_cannot_be_composed_is_refused(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(compose_run(["task=snli"])), "utf-8")
    with pytest.raises(ConfigError, match=r"does not use decoding\.beam_size=3"):
        restore_run(path, ["decoding.beam_size=3"])
    with pytest.raises(ConfigError, match=r"^hardware=true: "):
        restore_run(path, ["hardware=true"])


def test_settings_of_earlier_versions_may_have_the_value_that_is_left(tmp_path):
    path = tmp_path / "config.yaml"
    config = compose_run(["task=nmt"])
    text = to_yaml(config).replace("loss:\n", "loss:\n  label_smoothing: 0.0\n")
    path.write_text(text, "utf-8")
    assert settings(restore_run(path, [])) == settings(config)
    path.write_text(text.replace("label_smoothing: 0.0", "label_smoothing: 0.1"), "utf-8")
    with pytest.raises(ConfigError, match="loss: unknown label_smoothing"):
        restore_run(path, [])


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"\xff", "UTF-8"),
        (b"hydra: {}", "'hydra'"),
        (b"hydra: {run: {dir: x}}", "'hydra'"),
        (b"other: 1", "'other'"),
        (b"seed: {}", "seed"),
        (b"precision: {a: 1}", "precision"),
        (b"training: {}", "training.learning_rate"),
        (b"model: &model [*model]", "recursion"),
    ],
)
def test_what_no_run_wrote_is_named_with_its_file(tmp_path, line, named):
    path = tmp_path / "config.yaml"
    key = line.decode("utf-8", "replace").partition(":")[0]
    whole = to_yaml(compose_run(["task=nmt"])).encode()
    # The line replaces the value of its key, with what is nested in it.
    kept = re.sub(rf"(?m)^{re.escape(key)}:.*\n( .*\n|- .*\n)*", "", whole.decode()).encode()
    path.write_bytes(kept + line + b"\n")
    with pytest.raises(ConfigError, match=named) as caught:
        restore_run(path, [])
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("content", [b"", b"1", b"[]", b"null", b"task", b"- task", b"{"])
def test_a_file_without_a_configuration_is_named(tmp_path, content):
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        restore_run(path, [])
    assert str(caught.value).startswith(str(path))
