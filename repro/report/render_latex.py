"""LaTeX tables with booktabs; grey text needs xcolor."""

from collections.abc import Collection, Sequence
from string import ascii_lowercase

from repro.report.document import Section
from repro.report.grid import Grid
from repro.report.significance import significance_note
from repro.report.table import MARKS, marked_departures

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "λ": r"$\lambda$",
    "±": r"$\pm$",
    "−": r"$-$",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "↔": r"$\leftrightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "·": r"$\cdot$",
    "—": "---",
    "–": "--",
    "§": r"\S{}",
    "…": r"\dots{}",
    **{
        mark: rf"\textsuperscript{{{letter}}}"
        for mark, letter in zip(MARKS, ascii_lowercase, strict=False)
    },
}


def escape_latex(text: str) -> str:
    """The text so that LaTeX sets it as it is, on one line."""
    return "".join(_ESCAPES.get(letter, letter) for letter in " ".join(text.split()))


def latex_table(section: Section) -> str:
    """A ``table`` environment for the main tables of one artefact.

    Returns:
        One ``tabular`` per grid, and what the sign of significance means; needs ``booktabs``, and
        ``xcolor`` for the published block.
    """
    caption = f"{section.experiment.title} ({section.experiment.place})."
    words = escape_latex(" ".join([caption, section.banner]).strip())
    grids = section.grids or tuple(section.details[:1])
    marked = marked_departures(section.experiment, section.table.scale)
    notes = [significance_note(section.table), *(f"{mark} {one.reason}" for mark, one in marked)]
    below = [f"{{\\footnotesize {escape_latex(note)}\\par}}" for note in notes if note]
    blocks = "\n\n\\medskip\n\n".join([*(latex_grid(grid) for grid in grids), *below])
    return (
        f"% {section.command}\n% needs \\usepackage{{booktabs,xcolor}}\n"
        f"\\begin{{table}}\n\\centering\n\\caption{{{words}}}\n"
        f"\\label{{tab:{section.anchor}}}\n{blocks}\n\\end{{table}}\n"
    )


def latex_grid(grid: Grid) -> str:
    """One ``tabular`` below its title, in grey if the grid is muted."""
    spec = "".join("l" if column.role == "label" else "r" for column in grid.columns)
    size = "\\footnotesize\\setlength{\\tabcolsep}{3pt}" if grid.wide else ""
    lines = [f"{{{size}\\color{{gray}}%" if grid.muted else f"{{{size}%"]
    lines += [f"\\emph{{{escape_latex(grid.title)}}}\\\\[2pt]"]
    lines += [f"\\begin{{tabular}}{{{spec}}}", "\\toprule"]
    lines += _group_lines(grid)
    lines += [_line([column.title for column in grid.columns]), "\\midrule"]
    for row in grid.rows:
        lines += ["\\addlinespace"] if row.starts_block else []
        lines += [_line(row.texts, row.best)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}}"])


def _group_lines(grid: Grid) -> list[str]:
    if not grid.grouped:
        return []
    cells, rules, start = [], [], 1
    for title, width in grid.groups:
        if title:
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(title)}}}")
            rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
        else:
            cells.extend([""] * width)
        start += width
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _line(texts: Sequence[str], bold: Collection[int] = ()) -> str:
    cells = [escape_latex(text) for text in texts]
    cells = [rf"\textbf{{{cell}}}" if n in bold else cell for n, cell in enumerate(cells)]
    return " & ".join(cells) + r" \\"
