"""LaTeX tables with booktabs; grey text needs xcolor."""

from string import ascii_lowercase

from repro.report.document import Section
from repro.report.grid import Grid
from repro.report.table import MARKS

_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "λ": r"$\lambda$",
    "±": r"$\pm$",
    "−": r"$-$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "→": r"$\rightarrow$",
    "↔": r"$\leftrightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "·": r"$\cdot$",
    "—": "---",
    "–": "--",
    "§": r"\S{}",
    "†": r"\dag{}",
    "°": r"$^{\circ}$",
    "‡": r"\ddag{}",
    "¶": r"\P{}",
    "…": r"\dots{}",
    **{
        mark: rf"\textsuperscript{{{letter}}}"
        for mark, letter in zip(MARKS, ascii_lowercase, strict=False)
    },
}

_LINE, _GAP = 100, 2
"""Widths of a 16 cm line in footnotesize and of the space between columns, in characters."""
_SMALL = 60
"""Widest grid, in characters, that is not set in footnotesize."""


def escape_latex(text: str) -> str:
    """Escape the special characters of LaTeX and join the text to one line."""
    return "".join(_ESCAPES.get(letter, letter) for letter in " ".join(text.split()))


def latex_table(section: Section) -> str:
    """Format the main tables of one artefact as a ``table`` environment.

    Returns:
        One ``tabular`` per grid, or several if its columns do not fit on a line, followed by the
        explanations of signs; needs ``booktabs``, and ``xcolor`` for muted grids.
    """
    caption = f"{section.experiment.title} ({section.experiment.place})."
    words = escape_latex(" ".join([caption, section.banner]).strip())
    below = [f"{{\\footnotesize {escape_latex(sign)}\\par}}" for sign in section.signs]
    parts = [grid.of_columns(part) for grid in section.grids for part in grid.parts(_LINE, _GAP)]
    blocks = "\n\n\\medskip\n\n".join([*(latex_grid(part) for part in parts), *below])
    return (
        f"% {dict(section.facts)['command']}\n"
        "% needs \\usepackage{booktabs,xcolor}\n"
        f"\\begin{{table}}\n\\centering\n\\caption{{{words}}}\n"
        f"\\label{{tab:{section.anchor}}}\n{blocks}\n\\end{{table}}\n"
    )


def latex_grid(grid: Grid) -> str:
    """Format a grid as a ``tabular`` below its title, in grey if the grid is muted."""
    spec = "".join("l" if column.role == "label" else "r" for column in grid.columns)
    size = "\\footnotesize\\setlength{\\tabcolsep}{3pt}" if grid.letters > _SMALL else ""
    lines = [f"{{{size}\\color{{gray}}%" if grid.muted else f"{{{size}%"]
    lines += [f"\\emph{{{escape_latex(grid.title)}}}\\\\[2pt]"]
    lines += [f"\\begin{{tabular}}{{{spec}}}", "\\toprule"]
    if grid.groups:
        cells, rules, start = [], [], 1
        for title, width in grid.groups:
            if title:
                cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(title)}}}")
                rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
            else:
                cells.extend([""] * width)
            start += width
        lines += [" & ".join(cells) + r" \\", "".join(rules)]
    titles = []
    for column in grid.columns:
        words = [escape_latex(word) for word in column.title.split()]
        titles.append(" ".join(words))
        if column.role != "label" and len(words) > 1:  # one word per line
            titles[-1] = r"\shortstack[r]{" + r" \\ ".join(words) + "}"
    lines += [" & ".join(titles) + r" \\"]
    if grid.corpora:
        corpora = (
            rf"\multicolumn{{{width}}}{{c}}{{\color{{gray}}{escape_latex(name)}}}"
            for name, width in grid.corpora
        )
        lines += [" & ".join(corpora) + r" \\"]
    lines += ["\\midrule"]
    for row in grid.rows:
        lines += ["\\addlinespace"] if row.starts_block else []
        texts = [(escape_latex(cell.text), cell.best) for cell in row.cells]
        lines += [" & ".join(rf"\textbf{{{t}}}" if best else t for t, best in texts) + r" \\"]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}}"])
