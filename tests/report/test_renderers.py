import base64
import csv
import hashlib
import io
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from measured import made_up_table, measurement
from sections import document_of, section_of

from repro.config.claims import Claim, Order, Reference
from repro.config.experiment import Axis, Column, Experiment, Published
from repro.report.claims import ClaimsOfPaper, Judged, Verdict
from repro.report.contrasts import Contrast, Side, outcome_of
from repro.report.document import Absent, Document, Section, build_section
from repro.report.grid import NOT_COMPARABLE
from repro.report.matrix import Line
from repro.report.provenance import document_banner, scale_banner
from repro.report.render_csv import csv_table
from repro.report.render_html import html_index, html_report
from repro.report.render_latex import escape_latex, latex_table
from repro.report.render_markdown import escape_markdown, markdown_report, markdown_table
from repro.report.table import build_table
from repro.results import Measurement

HOSTILE = "<script>alert('x')</script>|*b*_i_`c`[l](u)&lt;\n$\\input{x}$%#^~\"{}"


class Tags(HTMLParser):
    """Names of the elements and the text outside of the style."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parse(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    return tags


def document(section: Section, scale: str = "full") -> Document:
    absent = Absent("paper2020/figure1", "A figure", "not run at this scale", "make figure")
    return Document(scale, section.banner, (section,), (absent,))


@pytest.fixture
def section(experiment: Experiment, records: list[Measurement]) -> Section:
    return section_of(experiment, records)


@pytest.fixture
def hostile() -> Section:
    """An artefact whose every text tries to break out."""
    experiment = made_up_table(
        title=HOSTILE,
        place=HOSTILE,
        rows=[Axis(HOSTILE, {HOSTILE: []})],
        columns=[Column(HOSTILE, "test/accuracy")],
        seeds=[1],
        published=Published(HOSTILE, {}, {HOSTILE: {HOSTILE: 1.0}}),
        notes=[HOSTILE],
    )
    names = ("run_id", "row", "column", "signature", "corpus", "commit", "device", "versions")
    record = measurement(**dict.fromkeys(names, HOSTILE))
    language = replace(record, metric=f"test/accuracy/{HOSTILE.replace('/', '')}")
    return section_of(experiment, [record, language])


def test_changed_settings_are_part_of_the_command_and_the_first_note(experiment, records):
    changed = ["training.max_epochs=1", "name=two words"]
    section = build_section(build_table(experiment, records, "full"), records, changed=changed)
    command = dict(section.facts)["command"]
    assert shlex.split(command)[-2:] == changed
    assert "training.max_epochs=1" in section.notes[0]
    assert latex_table(section).startswith(f"% {command}\n")


def test_html_shows_numbers_provenance_and_command(section):
    page = html_report(document(section))
    text = "".join(parse(page).text)
    for expected in [
        "52.00 ± 1.00", "42.00 ± 1.41 (2/3)", "+0.75", "51.25", "OTHER (2018)", "96.00", "—",
        "repro reproduce paper2020/table9 scale=full", "made-up 0123456789ab", "c0ffee",
        "5, 1 ensemble, 5.0 minutes in all", "python 3.11; torch 2.13", "acc|made:up", "A note.",
        "over the seeds 1, 2, 3", "Paper (2020), Table 9", "of 2 columns", "Not run at this scale",
    ]:  # fmt: skip
        assert expected in text, expected
    assert "not comparable" not in text


def test_a_single_seed_has_no_spread(experiment, records):
    alone = replace(experiment, seeds=[1])
    facts = dict(section_of(alone, records).facts)
    assert facts["cells"] == "one run, seed 1; — without runs"


def test_counts_of_runs_and_divergence_are_explained_in_every_format(experiment, records):
    diverged = [replace(one, diverged=one.run_id == "b3") for one in records]
    one = section_of(experiment, diverged)
    assert one.table.rows[1].cells[0].text == "42.00 ± 1.41 (2/3)‡"
    assert one.table.rows[0].cells[0].text == "52.00 ± 1.00"
    assert one.signs == (
        "(n/N): only n of the N seeds of the column have been run with one version of the code.",
        "‡ the training diverged: b3.",
    )
    for text in (html_report(document(one)), markdown_table(one), latex_table(one)):
        assert "n of the N seeds of the column have been run" in text
        assert "the training diverged: b3" in text
    whole = [one for one in records if one.row == "1 / a"]
    assert section_of(experiment, whole).signs == ()


def test_a_collapsed_seed_is_explained_and_all_seeds_are_shown_on_hovering(experiment, records):
    fallen = [replace(one, value=12.0) if one.run_id == "a2" else one for one in records]
    one = section_of(experiment, fallen)
    assert "(1 / a, avg)" in " ".join(one.signs)
    assert 'title="seed 1: 51.00\nseed 2: 12.00\nseed 3: 53.00"' in html_report(document(one))
    assert "\\P{}" in latex_table(one)


def test_at_most_three_notes_are_visible_and_explanations_of_signs_come_first(experiment, records):
    notes = [f"Note {number}." for number in range(5)]
    one = section_of(replace(experiment, notes=notes), records)
    visible, folded = one.remarks
    assert visible == (
        "(n/N): only n of the N seeds of the column have been run with one version of the code.",
        "Note 0.",
        "Note 1.",
    )
    assert folded == ("Note 2.", "Note 3.", "Note 4.")
    page = html_report(document(one))
    start = page.index("<summary>about this table</summary>")
    assert page.index("Note 1.") < start < page.index("Note 2.")
    assert "<summary>about this table</summary>" in markdown_table(one)


def test_figures_that_are_not_drawn_do_not_count(section, figure_experiment):
    run = measurement(column="dev", metric="dev/accuracy")
    figure = section_of(figure_experiment, [run])
    both = replace(document(section), sections=(section, figure))
    assert both.summary.startswith("1 of 3 tables and figures")
    assert both.papers[0].coverage.startswith("1 artefact ")
    study = replace(section, experiment=replace(section.experiment, paper="study"))
    papers = replace(both, sections=(section, study), references={"paper2020": Reference("")})
    assert papers.summary.startswith("1 of 2 tables and figures")
    assert "torch" not in papers.summary
    page = html_report(both)
    assert re.findall(r'<li class="undrawn"><a href="#([^"]+)"', page) == [figure.anchor]


def test_only_runs_with_an_address_are_linked(section):
    page = html_report(document(section), {"a1": "runs.html#a1"})
    assert {*re.findall(r'<a class="run" href="([^"]+)"', page)} == {"runs.html#a1"}
    assert '<a class="run"' not in html_report(document(section))


def test_decimals_of_a_column_are_aligned(section):
    """Every number of a column is followed by a box that is as wide as the longest spread."""
    page = html_report(document(section))
    boxes = re.findall(r'([\d.]+)<span class="spread" style="min-width:(\d+)ch">([^<]*)<', page)
    main = [(value, spread) for value, _, spread in boxes[:2]]
    assert main == [("52.00", " ± 1.00"), ("42.00", " ± 1.41 (2/3)")]
    assert len({width for _, width, _ in boxes[:2]}) == 1


def test_html_needs_nothing_from_outside(section):
    page = html_report(document(section))
    tags = parse(page)
    assert not {"link", "iframe", "object"} & set(tags.names)
    local = ("#", "data:", "tables/paper2020/", "figures/paper2020/", "pages/")
    assert all(address.startswith(local) for address in tags.addresses)
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def only_script(page: str) -> str:
    """Text of the page's only script, which its policy must name by its hash."""
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert page.lower().count("<script") == 1
    return script


def test_html_escapes_hostile_text_everywhere(hostile):
    page = html_report(document(hostile))
    tags = parse(page)
    assert "alert(" not in only_script(page)
    assert "".join(tags.text).count("<script>alert('x')</script>") >= 12


def test_html_links_of_the_contents_lead_somewhere(section):
    page = html_report(document(section))
    targets = set(re.findall(r'id="([^"]+)"', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert set(links) == {"top", "paper2020", "paper2020-table9", "absent"}
    assert set(links) <= targets


def test_html_rows_have_as_many_cells_as_the_head(section):
    page = html_report(document(section))
    assert page.count("<table") > 1
    for table in re.findall(r"<table.*?</table>", page, re.S):
        head, *rows = [
            sum(int(width or 1) for width in re.findall(r"<t[hd](?: colspan=\"(\d+)\")?", line))
            for line in re.findall(r"<tr.*?</tr>", table, re.S)
        ]
        assert rows
        assert set(rows) == {head}


def test_below_full_scale_every_page_warns_and_shows_no_difference(experiment, records):
    demo = section_of(experiment, records, "demo")
    texts = {
        "html": html_report(document(demo, "demo")),
        "md": markdown_table(demo),
        "tex": latex_table(demo),
        "csv": csv_table(demo.table),
    }
    for name, text in texts.items():
        assert NOT_COMPARABLE in text, name
        assert "diff." not in text, name
        assert "difference" not in text.replace("td.difference", ""), name
        assert "+0.75" not in text, name
    for name in ("html", "md", "tex"):
        assert "Measured at demo scale" in texts[name], name
    assert 'class="scroll muted"' in texts["html"]
    assert "\\color{gray}" in texts["tex"]


def test_wide_tables_share_their_columns_with_the_published_values(
    experiment, records, monkeypatch
):
    monkeypatch.setattr("repro.report.document.NARROW", 10)
    page = html_report(document(section_of(experiment, records, "demo"), "demo"))
    assert '<tbody class="muted">' in page
    assert 'class="scroll muted"' not in page


def test_markdown_tables_are_whole(section, hostile):
    for shown in (section, hostile):
        text = markdown_table(shown)
        blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
        assert blocks
        for block in blocks:
            widths = [len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()]
            assert len(set(widths)) == 1
            assert re.fullmatch(r"\|( :?-+:? \|)+", block.splitlines()[1])


def test_markdown_escapes_hostile_text(hostile, tmp_path):
    report = markdown_report(document(hostile), tmp_path)
    for text in (report, markdown_table(hostile)):
        assert not re.search(r"(?<!\\)<script", text)
        assert "(u)" in text
        # Inside an HTML element Markdown reads no links.
        outside = re.sub(r"<summary>.*</summary>", "", text)
        assert not re.search(r"(?<!\\)\]\(u\)", outside)
    assert escape_markdown("a|b\n*c* <d> &lt;") == r"a\|b \*c\* \<d\> &amp;lt;"


def test_markdown_report_lists_what_is_and_what_is_not(section, tmp_path):
    report = markdown_report(document(section), tmp_path)
    link = "- [A made-up table (paper2020, Table 9, §3)](#paper2020-table9)"
    assert f"{link}: {section.state}" in report
    page = " ".join(" ".join(parse(html_report(document(section))).text).split())
    assert f"Table 9, §3 · {section.state}" in page
    assert '<a id="paper2020-table9"></a>' in report
    assert "| 1 | a | **52.00 ± 1.00** | 51.25 | +0.75 | 55.12 |  |  |" in report
    assert "- paper2020/figure1: A figure: not run at this scale: `make figure`" in report


def unescaped(pattern: str, text: str) -> int:
    return len(re.findall(rf"(?<!\\){pattern}", text))


@pytest.mark.parametrize("name", ["section", "hostile"])
def test_latex_is_well_formed(name, request):
    text = latex_table(request.getfixturevalue(name))
    body = text.replace("\\\\", "\n")
    assert unescaped(r"\{", body) == unescaped(r"\}", body)
    assert unescaped(r"\$", body) % 2 == 0
    opened = re.findall(r"\\begin\{(\w+)\}", text)
    assert sorted(opened) == sorted(re.findall(r"\\end\{(\w+)\}", text))
    assert text.isascii()
    for spec, table in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.S):
        lines = [line for line in table.splitlines() if line.endswith(r" \\")]
        assert len(lines) >= 2
        for line in lines:
            spans = re.findall(r"\\multicolumn\{(\d+)\}", line)
            cells = unescaped("&", line) + 1 + sum(int(span) - 1 for span in spans)
            assert cells == len(spec), line


@pytest.fixture
def wide() -> Section:
    """A table of one row, and of 24 columns in three groups."""
    columns = [
        Column(f"{corpus} R-{n} whole", "test/accuracy", labels=[corpus, f"R-{n} whole"])
        for corpus in ("DUC 2003", "DUC 2004", "Gigaword")
        for n in range(8)
    ]
    rows = [Axis("attention", {"oscarmax (as published)": []})]
    experiment = made_up_table(rows=rows, columns=columns, seeds=[1])
    found = [measurement(row="oscarmax (as published)", column=one.name) for one in columns]
    return section_of(experiment, found)


def test_wide_latex_tables_are_cut_at_groups(wide):
    text = latex_table(wide)
    specs = re.findall(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert specs == ["l" + "r" * 8, "l" + "r" * 8, "l" + "r" * 8]
    for group in ("DUC 2003", "DUC 2004", "Gigaword"):
        assert text.count(rf"\multicolumn{{8}}{{c}}{{{group}}}") == 1
    assert text.count("50.00") == 24


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX")
@pytest.mark.parametrize("name", ["section", "hostile", "wide"])
def test_latex_compiles_within_its_line(name, request, tmp_path):
    table = latex_table(request.getfixturevalue(name))
    (tmp_path / "page.tex").write_text(
        "\\documentclass[a4paper]{article}\\usepackage[margin=2.4cm]{geometry}"
        f"\\usepackage[T1]{{fontenc}}\\usepackage{{booktabs,xcolor}}\\begin{{document}}\n{table}"
        "\\end{document}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert name == "hostile" or "Overfull" not in done.stdout  # its one column is a long text


def test_latex_escapes_every_special_character():
    assert escape_latex("α & β_1 50% #3 {x} ~^\\$") == (
        r"$\alpha$ \& $\beta$\_1 50\% \#3 \{x\} \textasciitilde{}\textasciicircum{}"
        r"\textbackslash{}\$"
    )
    assert escape_latex("1 ± 2 − 3 — a\nb") == r"1 $\pm$ 2 $-$ 3 --- a b"


def test_csv_holds_the_unrounded_numbers(section):
    rows = list(csv.DictReader(io.StringIO(csv_table(section.table))))
    assert len(rows) == 10
    first = rows[0]
    assert (first["output α"], first["attention α"], first["column"]) == ("1", "a", "avg")
    assert (first["mean"], first["std"], first["values"]) == ("52.0", "1.0", "51.0 52.0 53.0")
    assert (first["seeds_found"], first["seeds_wanted"]) == ("3", "3")
    assert (first["paper"], first["difference"], first["scale"]) == ("51.25", "0.75", "full")
    assert rows[3]["mean"] == ""
    assert rows[3]["seeds_found"] == "0"
    assert rows[-1]["paper"] == "96.0"
    assert rows[-1]["scale"] == ""


def test_csv_survives_hostile_text(hostile):
    rows = list(csv.DictReader(io.StringIO(csv_table(hostile.table))))
    assert [row[HOSTILE] for row in rows] == [HOSTILE] * 2


def test_claims_come_first_and_hostile_text_stays_text(section):
    order = Order(better=[HOSTILE], than=[HOSTILE])
    claim = Claim(HOSTILE, HOSTILE, HOSTILE, HOSTILE, order=order)
    side = Side(f"{{}} with {HOSTILE}", 1.0)
    outcome = outcome_of(Contrast(HOSTILE, side, side, 1, 1.0, 0.1, 2, 3))
    holds = Verdict.HOLDS
    row = Judged(HOSTILE, claim, section.experiment, holds, holds, (outcome,), outcome)
    unlinked = replace(row, experiment=replace(section.experiment, artefact=HOSTILE))
    paper = ClaimsOfPaper(HOSTILE, HOSTILE, (row, unlinked), (row,))
    lines = [Line(HOSTILE, row, "small", None, ("●", "·", "·"))]
    shown = replace(document(section), claims=(paper,), matrix=lines)
    assert "".join(parse(html_index(lines, ["small"])).text).count(HOSTILE) == 3
    page = html_report(shown)
    tags = parse(page)
    assert "alert(" not in only_script(page)
    assert "".join(tags.text).count(HOSTILE) >= 9
    assert page.index('id="claims"') < page.index(f'id="{section.anchor}"')
    written = markdown_report(shown, Path()).splitlines()
    claims = [line for line in written if line.startswith("| **holds**")]
    assert [line.count("](#") for line in claims] == [1, 0]
    assert not any(re.search(r"(?<!\\)<script", line) for line in written)


def test_papers_without_a_measured_claim_come_last_in_one_line(section):
    papers = ((Verdict.NOT_MEASURED,), (Verdict.HOLDS,))
    page = html_report(document_of(section.experiment, *papers))
    parts = page.split('<div class="judged">')[1:]
    assert [("<h3>" in one, "Paper0" in one) for one in parts] == [(True, False), (False, True)]


def test_only_models_other_than_the_papers_are_a_warning():
    assert not document_banner("full")
    assert document_banner("subset") == scale_banner("subset")
    assert document_banner("small") != scale_banner("small")
