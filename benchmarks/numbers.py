"""Measured numbers in the documents: each is a link, whose title is the query that gives it.

A page says ``BLEU [?][entmax]``, and below its text, where Markdown defines links::

    [entmax]: ../results/small/tables/peters2019/table2.md "1.5-entmax | DE→EN"

``python -m benchmarks.numbers`` (``make numbers``) replaces ``?`` by the answer. Queries are

=================================  ==============================================================
link to                            title
=================================  ==============================================================
``results/<scale>/tables/….md``    ``row | column``: a cell as the report prints it; a third part
                                   ``published``, ``difference`` or the name of another metric
``results/<scale>/report.md``      the name of a claim: its verdict and the certainty; the name of
                                   a paper, or ``all``: the number of claims of each verdict;
                                   ``filters | metric``: the runs that ``repro results`` finds
``docs/papers/….md``               ``published: place``: a value of the paper's text, kept as it is
=================================  ==============================================================

Between ``<!-- questions -->`` and ``<!-- /questions -->`` stands the table of the questions of
``experiments/*/claims.yaml``, with the answers of all scales.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from repro.config.experiment import load_experiment
from repro.data.files import write_if_changed
from repro.errors import UserError
from repro.evaluation.metrics import metric_of
from repro.report.cell import Cell
from repro.report.claims import Judged, claims_by_paper, judge_claims
from repro.report.matrix import SCALES, answers, claims_matrix
from repro.report.significance import Comparer, compare_rows
from repro.report.table import EARLIER, build_table
from repro.results import Archive
from repro.results.frame import frame_of, selected
from repro.version import NUMERIC_EPOCH

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEFINITION = re.compile(r'^\[([\w.-]+)\]: (\S+) "([^"]+)"$', re.MULTILINE)
REFERENCE = re.compile(r"\[([^\[\]]*)\]\[([\w.-]+)\]")
QUESTIONS = re.compile(r"(<!-- questions -->\n).*?(<!-- /questions -->)", re.DOTALL)
_NOT_PROSE = re.compile(r"^```.*?^```|`[^`\n]+`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(r"\b1\.5-entmax|\bUD \d\.\d|\bPython ≥ 3\.11|§\d\.\d|\b95 % confidence")
_RESULT = re.compile(
    r"\d[\d,]*\.\d+|\d[\d,]*[ -]?(?:%|points?\b|BLEU\b|UAS\b|ROUGE|words/s|pairs/s|minutes?\b)"
    r"|\bp [<=]|\b(?:holds?|undecided)\b"
)


@cache
def archive_of(scale: str) -> Archive:
    """Open the committed results of a scale."""
    return Archive(ROOT / "results", scale)


@cache
def _comparer_of(scale: str) -> Comparer:
    return Comparer(ROOT / "results", scale)


@cache
def judged_at(scale: str) -> list[Judged]:
    """Judge every claim by the committed records of a scale."""
    return judge_claims(archive_of(scale))


def answer(target: str, query: str) -> str | None:
    """Answer a query as the report would print it, ``None`` where nothing was measured.

    Raises:
        UserError: the results have no such file, row, column, claim, run or metric.
    """
    parts = query.split(" | ")
    if not (ROOT / target).is_file():
        raise UserError(f"there is no file {target}")
    try:
        if found := re.fullmatch(r"results/(\w+)/tables/(\w+/\w+)\.md", target):
            return _cell(*found.groups(), *parts)
        if found := re.fullmatch(r"results/(\w+)/report\.md", target):
            return _runs(found[1], *parts) if len(parts) == 2 else _claims(found[1], query)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{target} cannot answer {query!r}: {error!r}") from error
    if target.startswith("docs/papers/") and re.match(r"published: .*(Table|Figure|§)", query):
        return None
    raise UserError(f"expected a table, a report, or a paper with 'published: place': {target}")


def _cell(scale: str, artefact: str, row: str, column: str, kind: str = "measured") -> str:
    experiment = load_experiment(artefact)
    records = archive_of(scale).measurements(experiment)
    if "/" in kind:
        columns = [replace(one, metric=kind) for one in experiment.columns]
        experiment = replace(experiment, columns=columns)
    known = compare_rows(experiment, records, scale, _comparer_of(scale), compute=False)
    table = build_table(experiment, records, scale, known)
    cells = {one.label: one.cells for one in (*table.rows, *table.other_rows)}[row]
    cell = cells[[one.name for one in experiment.columns].index(column)]
    texts = {"published": cell.published_text, "difference": cell.difference_text}
    if not (text := texts.get(kind, cell.text)):
        raise ValueError("the cell is blank")
    return text


def _claims(scale: str, name: str) -> str:
    for one in judged_at(scale):
        if one.claim.name == name:
            return f"{one.verdict} ({one.certainty})" if one.certainty else f"{one.verdict}"
    together = [replace(one, paper="all") for one in judged_at(scale)]
    papers = [*claims_by_paper(judged_at(scale)), *claims_by_paper(together)]
    return {one.paper: one.summary for one in papers}[name]


def _runs(scale: str, filters: str, metric: str) -> str:
    frame = selected(frame_of(archive_of(scale).records), filters.split())
    frame = frame.dropna(subset=[metric])
    versions = frame[["epoch", "precision"]].drop_duplicates()
    if len(versions) != 1 or frame["seed"].duplicated().any():
        raise ValueError(f"{len(frame)} runs, expected one a seed, of one epoch and precision")
    earlier = EARLIER * bool(versions["epoch"].iloc[0] != NUMERIC_EPOCH)
    return Cell((*frame[metric],), len(frame), metric_of(metric).digits, marks=earlier).text


def filled(page: Path, text: str) -> str:
    """Replace the text of every link that has a query by the answer, and the table of questions."""
    queries = {label: (target, query) for label, target, query in DEFINITION.findall(text)}

    def replaced(link: re.Match[str]) -> str:
        if link[2] not in queries:
            return link[0]
        target, query = queries[link[2]]
        place = (page.parent / target).resolve().relative_to(ROOT).as_posix()
        found = answer(place, query)
        return link[0] if found is None else f"[{found}][{link[2]}]"

    text = QUESTIONS.sub(lambda block: f"{block[1]}{questions()}{block[2]}", text)
    return REFERENCE.sub(replaced, text)


@cache
def questions() -> str:
    """Format the table of questions, with the answers from the committed records."""
    columns = ("question", "published", "measured", "scale", "answer")
    lines = claims_matrix(ROOT / "results", {scale: judged_at(scale) for scale in SCALES})
    rows = ((one.question, one.paper, one.here, one.scale, one.answer) for one in answers(lines))
    cells = (columns, (":---", "---:", "---:", ":---", ":---"), *rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def undeclared(text: str) -> Iterator[str]:
    """Yield what reads like a result without a query: decimals, units, verdicts.

    Settings stand in code, which is not looked at.
    """
    labels = {label for label, _, _ in DEFINITION.findall(text)}
    prose = QUESTIONS.sub("", text)
    prose = _NAMES.sub("", DEFINITION.sub("", _NOT_PROSE.sub("", prose)))
    prose = REFERENCE.sub(lambda link: "" if link[2] in labels else link[0], prose)
    for found in _RESULT.finditer(prose):
        yield prose[max(found.start() - 20, 0) : found.end()]


if __name__ == "__main__":
    for page in PAGES:
        write_if_changed(page, filled(page, page.read_text(encoding="utf-8")).encode())
