from importlib.metadata import distributions

import pytest

from repro.config.errors import ConfigError
from repro.evaluation.metrics import METRICS, is_current, metric_of, without_versions
from repro.version import __version__


def test_registry_holds_every_metric_under_its_name():
    assert all(metric.name == name for name, metric in METRICS.items())
    assert {"accuracy", "levenshtein", "loss", "certified", "single"} <= set(METRICS)
    assert {"attention_nonzeros", "output_nonzeros", "tokens_per_second"} <= set(METRICS)


def test_signatures_are_distinct():
    assert len({metric.signature for metric in METRICS.values()}) == len(METRICS)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_signatures_are_choices_and_the_version(name):
    head, *choices = METRICS[name].signature.split("|")
    assert head
    assert all(len(choice.split(":")) == 2 for choice in choices)
    assert choices[-1] == f"v:{__version__}"


@pytest.mark.parametrize("name", sorted(METRICS))
def test_no_version_of_a_package_tells_signatures_apart(name):
    installed = {f"{one.name}:{one.version}".replace("_", "-") for one in distributions()}
    installed.add(f"v:{__version__}")
    assert installed & {*METRICS[name].signature.split("|")}
    assert not installed & {*without_versions(METRICS[name].signature).split("|")}


def test_choices_tell_signatures_apart():
    text = "bleu|tok:13a|case:lc|sacrebleu:2.6.0|v:0.1.0"
    assert without_versions(text) == "bleu|tok:13a|case:lc"
    assert without_versions("meteor|program:meteor-1.5") == "meteor|program:meteor-1.5"
    assert is_current("test/accuracy", "acc|macro:language|scorer:evalm2018|v:9.9")
    assert not is_current("test/accuracy", "acc|macro:language|scorer:own|v:0.1.0")
    assert is_current("test/accuracy/english", "acc|language:english|scorer:evalm2018")


def test_metric_of_a_split():
    metric = metric_of("test/accuracy")
    assert metric is METRICS["accuracy"]
    assert metric.signature == f"acc|macro:language|scorer:evalm2018|v:{__version__}"
    assert (metric.unit, metric.digits, metric.higher_is_better) == ("%", 2, True)


def test_metric_of_a_language_is_no_macro_average():
    metric = metric_of("test/levenshtein/old-english")
    assert metric.signature == f"lev|language:old-english|scorer:evalm2018|v:{__version__}"
    assert metric.higher_is_better is False


def test_metric_of_a_label_names_the_label():
    metric = metric_of("dev/label_recall/neutral")
    assert metric.signature == f"recall|label:neutral|micro:pair|v:{__version__}"


def test_further_test_sets_have_the_same_metrics():
    assert metric_of("test_duc2004/rouge1") is metric_of("test/rouge1") is METRICS["rouge1"]


@pytest.mark.parametrize(
    "name", ["accuracy", "valid/accuracy", "test/accuracy/a/b", "test/accuracy/", "test/", ""]
)
def test_malformed_names_are_refused(name):
    with pytest.raises(ConfigError, match="not a metric name: expected <split>/<metric>"):
        metric_of(name)


def test_unknown_metric_names_the_choices():
    with pytest.raises(ConfigError, match=r"unknown metric 'ter'.*choose .*accuracy, levenshtein"):
        metric_of("test/ter")
