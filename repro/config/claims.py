"""Claims: statements of a paper as predicates over cells, ``experiments/<paper>/claims.yaml``."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from operator import eq
from pathlib import Path

from repro.config.errors import ConfigError
from repro.config.experiment import CLAIMS_FILE, Experiment, load_experiment
from repro.config.loading import load_structured
from repro.config.paths import experiments_dirs

SOURCES = ("sentence", "table")
"""What states a claim: a sentence of the paper, or the values of a table only."""


@dataclass
class Predicate:
    """Settings of all predicates; values are means over the columns of one metric."""

    columns: list[str] = field(default_factory=list)  # of the artefact, by name; empty for all
    metric: str | None = None  # of the columns' runs, in place of the one that the columns show
    # The sentence is about each column by itself, so that those measured are judged, by name,
    # without the others.
    each: bool = False
    # Metric on validation data that chooses a row in each column, the one with the best mean over
    # its seeds, from the rows of Bound, or from `better` and from `than`; `null` to compare all.
    choose: str | None = None


@dataclass
class Order(Predicate):
    """Predicate that rows are better than others: each of ``better`` than each of ``than``."""

    better: list[str] = field(default_factory=list)  # rows that are better
    than: list[str] = field(default_factory=list)  # rows that are worse
    mean: bool = False  # compare the mean of `better` with the mean of `than`, the main effect
    in_turn: bool = False  # compare only rows at the same place of both lists
    # Least difference, in the unit of the metric; below zero, rows of `better` may be worse by less
    # than that.
    by: float = 0.0
    # Whether `"higher"` or `"lower"` values are better; `null` for the direction of the metric.
    direction: str | None = None


@dataclass
class Bound(Predicate):
    """Predicate that the value of every row lies in an interval."""

    rows: list[str] = field(default_factory=list)  # rows whose values are checked
    lowest: float | None = None  # the values are above it, `null` for no such limit
    highest: float | None = None  # the values are below it, `null` for no such limit
    # Row by whose value each value is divided; `null` for no division.
    relative_to: str | None = None


@dataclass
class Spread(Predicate):
    """Predicate that one axis of the rows changes the values less than another.

    The change by an axis is its main effect in a two-way analysis of variance: the standard
    deviation of the means over its labels.
    """

    axis: str = ""  # name of the axis that changes less
    than: str = ""  # name of the axis that changes more


@dataclass
class Claim:
    """Statement of a paper, with exactly one predicate or the reason why there is none."""

    name: str  # short name, unique within the paper
    text: str  # what the paper says, in our own words
    place: str  # section, table or figure
    artefact: str  # the artefact of this paper whose cells decide it, for example `"table1"`
    order: Order | None = None
    bound: Bound | None = None
    spread: Spread | None = None
    # What in the predicate is our reading of the text, such as a limit that the paper does not
    # print, and how it follows from published values; blank if nothing is.
    reading: str = ""
    # Why the claim is not measured, with the published values that it rests on.
    as_published: str | None = None
    # Seeds with which the rule would agree with a probability of 80 % if the published values were
    # the true means; `null` if at most five.
    seeds_needed: int | None = None
    # `"sentence"` of the paper, or `"table"` for values that no sentence compares.
    source: str = "sentence"
    # What a reader would ask; claims with the same question answer it together. Blank to leave the
    # claim out of the table of questions.
    question: str = ""

    @property
    def predicate(self) -> Predicate | None:
        """Predicate, ``None`` if the claim is not measured; ``ConfigError`` for several or none."""
        given = [p for p in (self.order, self.bound, self.spread) if p is not None]
        if len(given) + (self.as_published is not None) != 1:
            raise ConfigError(
                f"claim {self.name!r}: expected one of order, bound, spread and as_published"
            )
        return given[0] if given else None


@dataclass
class Reference:
    """Bibliographic reference of a paper."""

    authors: str  # family names and year
    title: str = ""  # title of the paper
    venue: str = ""  # where it appeared
    url: str = ""  # address of its page


@dataclass
class PaperClaims:
    """A paper's reference and its claims, in the order of the file."""

    paper: str  # name of the paper's folder
    claims: list[Claim]
    reference: Reference | None = None  # `null` to show only the name of the folder


def load_claims() -> list[PaperClaims]:
    """Read and check the claims of every paper that has some.

    Raises:
        ConfigError: a file is malformed, or names an artefact, row, column or axis that does not
            exist.
    """
    found = sorted(
        path for folder in experiments_dirs() for path in folder.glob(f"*/{CLAIMS_FILE}")
    )
    return [_load(path, path.stat().st_mtime_ns) for path in found]


@cache
def _load(path: Path, stamp: int) -> PaperClaims:
    loaded = load_structured(PaperClaims, path, paper=path.parent.name)
    try:
        for claim in loaded.claims:
            for problem in _problems(claim, load_experiment(f"{loaded.paper}/{claim.artefact}")):
                raise ConfigError(f"claim {claim.name!r}: {problem}")
        names = [claim.name for claim in loaded.claims]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ConfigError(f"several claims are named {', '.join(repeated)}")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return loaded


def _problems(claim: Claim, experiment: Experiment) -> Iterator[str]:
    """Describe what is wrong with the predicate of a claim."""
    predicate, labels = claim.predicate, experiment.row_labels()
    if claim.source not in SOURCES:
        yield f"source is one of {', '.join(SOURCES)}"
    if predicate is None:
        return
    columns = [column.name for column in experiment.columns]
    named = [("columns", predicate.columns, columns)]
    match predicate:
        case Order():
            named.append(("better and than", [*predicate.better, *predicate.than], labels))
            others = [{*predicate.than} - {row} for row in predicate.better]
            if not (others and all(others)):
                yield "better needs a row, and than a row to compare it with"
            if predicate.in_turn and len(predicate.better) != len(predicate.than):
                yield "in_turn takes as many rows in better as in than"
            if bool(predicate.choose) + predicate.mean + predicate.in_turn > 1:
                yield "choose, mean and in_turn exclude each other"
            if predicate.in_turn and any(map(eq, predicate.better, predicate.than)):
                yield "in_turn compares a row with itself"
            if predicate.direction not in (None, "higher", "lower"):
                yield "direction is 'higher' or 'lower'"
        case Bound():
            relative = [] if predicate.relative_to is None else [predicate.relative_to]
            named.append(("rows and relative_to", [*predicate.rows, *relative], labels))
            if not predicate.rows or predicate.lowest is predicate.highest is None:
                yield "rows and one of lowest, highest are needed"
        case Spread():
            if predicate.choose:
                yield "spread takes no choose"
            axes = [axis.name for axis in experiment.rows]
            named.append(("axis and than", [predicate.axis, predicate.than], axes))
    for key, names, known in named:
        if unknown := [name for name in names if name not in known]:
            yield f"{key} names {unknown}; {claim.artefact} has {', '.join(known)}"
