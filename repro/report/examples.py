"""The examples that figures show, read from plain rows and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.report.canvas import is_mark
from repro.results import ResultsError

END = "</s>"
TOLERANCE = 1e-3


@dataclass(frozen=True)
class AttentionExample:
    """Attention weights of one prediction, ``weights[output][source]``.

    ``separator`` stands between the output symbols of the predicted string.
    """

    index: int
    language: str
    source: tuple[str, ...]
    output: tuple[str, ...]
    gold: str
    weights: tuple[tuple[float, ...], ...]
    separator: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Texts by which a figure may ask for it: lemma, or sentence, and its gold output."""
        text = lemma_of(self.source)
        return (text, f"{text} {self.gold}", *([self.gold] if self.separator else []))

    @property
    def prediction(self) -> str:
        """The predicted string."""
        return self.separator.join(token for token in self.output if token != END)

    @property
    def correct(self) -> bool:
        """Whether the prediction is the gold string."""
        return self.prediction == self.gold


@dataclass(frozen=True)
class Hypothesis:
    """One output string: its tokens, its probability, and that of each step.

    The last step is the end, unless the search stopped before it: then there is none.
    """

    tokens: tuple[str, ...]
    probability: float
    steps: tuple[float, ...]

    @property
    def text(self) -> str:
        """The output string, or the part of it that the search reached."""
        return "".join(self.tokens)

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return len(self.steps) > len(self.tokens)


@dataclass(frozen=True)
class LatticeExample:
    """Hypotheses of one example; ``finite`` says that every other string has probability zero."""

    index: int
    language: str
    lemma: str
    tags: tuple[str, ...]
    gold: str
    finite: bool
    hypotheses: tuple[Hypothesis, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Texts by which a figure may ask for it: the lemma, alone and with the gold form."""
        return self.lemma, f"{self.lemma} {self.gold}"

    @property
    def ranked(self) -> tuple[Hypothesis, ...]:
        """The hypotheses, the most probable one first."""
        return tuple(sorted(self.hypotheses, key=lambda one: (-one.probability, one.tokens)))

    @property
    def has_gold(self) -> bool:
        """Whether the gold string is among the hypotheses."""
        return any(self.is_gold(hypothesis) for hypothesis in self.hypotheses)

    def is_gold(self, hypothesis: Hypothesis) -> bool:
        """Whether a hypothesis is the whole gold string."""
        return hypothesis.finished and hypothesis.text == self.gold


def lemma_of(source: Sequence[str]) -> str:
    """The letters of a source, without language and tags."""
    return "".join(token for token in source if not is_mark(token))


def attention_example(row: Mapping[str, Any]) -> AttentionExample:
    """Read one row of ``attention.jsonl``.

    Args:
        row: ``index``, ``language``, ``source``, ``output``, ``gold`` and ``weights``, a list of
            one distribution over the source per output token; ``separator`` if there is one.

    Raises:
        ResultsError: a key is missing, the shape is wrong, or a row is no distribution.
    """
    place = f"attention example {row.get('index')}"
    try:
        example = AttentionExample(
            index=int(row["index"]),
            language=str(row["language"]),
            source=tuple(row["source"]),
            output=tuple(row["output"]),
            gold=str(row["gold"]),
            weights=tuple(tuple(float(weight) for weight in line) for line in row["weights"]),
            separator=str(row.get("separator", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    _check_weights(example, place)
    return example


def lattice_example(row: Mapping[str, Any]) -> LatticeExample:
    """Read one row of ``hypotheses.jsonl``.

    Args:
        row: ``index``, ``language``, ``lemma``, ``tags``, ``gold``, ``finite`` and ``hypotheses``,
            each with ``tokens``, ``probability`` and ``steps``.

    Raises:
        ResultsError: a key is missing, a probability lies outside of [0, 1], a hypothesis has not
            one step per token and at most one for the end, or a complete set holds an unfinished
            hypothesis or does not sum to one.
    """
    place = f"hypotheses of example {row.get('index')}"
    try:
        tags = row["tags"]
        example = LatticeExample(
            index=int(row["index"]),
            language=str(row["language"]),
            lemma=str(row["lemma"]),
            tags=tuple(tags.split(";") if isinstance(tags, str) else tags),
            gold=str(row["gold"]),
            finite=bool(row["finite"]),
            hypotheses=tuple(_hypothesis(entry) for entry in row["hypotheses"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    _check_hypotheses(example, place)
    return example


def _hypothesis(entry: Mapping[str, Any]) -> Hypothesis:
    tokens = tuple(entry["tokens"])
    return Hypothesis(
        tokens=tokens[:-1] if tokens[-1:] == (END,) else tokens,
        probability=float(entry["probability"]),
        steps=tuple(float(step) for step in entry["steps"]),
    )


def _check_hypotheses(example: LatticeExample, place: str) -> None:
    for hypothesis in example.hypotheses:
        _check_hypothesis(hypothesis, place)
    total = sum(hypothesis.probability for hypothesis in example.hypotheses)
    if total > 1 + TOLERANCE or (example.finite and total < 1 - TOLERANCE):
        kind = "complete" if example.finite else "incomplete"
        raise ResultsError(f"{place}: the {kind} set has total probability {total:.4f}")
    if example.finite and not all(hypothesis.finished for hypothesis in example.hypotheses):
        raise ResultsError(f"{place}: the complete set holds an unfinished hypothesis")


def _check_hypothesis(hypothesis: Hypothesis, place: str) -> None:
    if len(hypothesis.steps) - len(hypothesis.tokens) not in (0, 1):
        raise ResultsError(
            f"{place}: {hypothesis.text!r} has {len(hypothesis.steps)} steps for "
            f"{len(hypothesis.tokens)} tokens; expected one per token and one for the end"
        )
    numbers = (hypothesis.probability, *hypothesis.steps)
    if not all(0 <= number <= 1 + TOLERANCE for number in numbers):
        raise ResultsError(f"{place}: {hypothesis.text!r} has a probability outside of [0, 1]")


def _check_weights(example: AttentionExample, place: str) -> None:
    shape = (len(example.weights), {len(line) for line in example.weights})
    if not example.output or shape != (len(example.output), {len(example.source)}):
        raise ResultsError(
            f"{place}: expected {len(example.output)} rows of {len(example.source)} weights"
        )
    for number, line in enumerate(example.weights):
        # Written so that NaN fails as well.
        if not (min(line) >= 0 and abs(sum(line) - 1) <= TOLERANCE):
            raise ResultsError(
                f"{place}: weights of output {number} are no distribution (sum {sum(line):.6f})"
            )
