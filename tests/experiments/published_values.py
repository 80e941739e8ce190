"""Numbers printed in the four papers, transcribed from their texts and not from ``experiments/``.

Each table has the paper's own layout: blocks of columns, one line for each row, ``-`` where the
paper prints none. Values that an experiment derives from printed ones are computed here.
"""

from collections.abc import Mapping, Sequence

Cells = dict[tuple[str, str, str], float]
"""Kind (``rows``, ``deviations`` or ``other_rows``), row and column to the number."""

AS_PUBLISHED = {"oscarmax": "oscarmax (as published)"}
"""Rows that an experiment names differently: the paper's algorithm stands beside another one."""


def block(columns: Sequence[str], text: str, kind: str = "rows") -> Cells:
    """Cells of lines that end with one number for each column; what precedes them is the row."""
    cells: Cells = {}
    for line in text.strip().splitlines():
        words = line.split()
        label = " ".join(words[: -len(columns)])
        row = AS_PUBLISHED.get(label, label)
        for column, number in zip(columns, words[-len(columns) :], strict=True):
            if number != "-":
                cells[kind, row, column] = float(number)
    return cells


def corpora(direction: str) -> list[str]:
    """Columns of one half of Niculae & Blondel (2017), Table 4."""
    by_corpus = {
        "BENCHMARK": "fr it nl sv", "BENCHMARK+": "fr it", "WMT16": "ro de fi", "WMT17": "lv tr"
    }  # fmt: skip
    return [
        f"{corpus} {language} {direction}"
        for corpus, languages in by_corpus.items()
        for language in languages.split()
    ]


def rouge_columns(test_set: str, scores: str = "R-1 R-2 R-L R-W1.2") -> list[str]:
    """Columns of one block of Niculae & Blondel (2017), Tables 6 and 7: truncated, then not."""
    return [f"{test_set} {score} {cut}" for cut in ("cut", "whole") for score in scores.split()]


def snli_times() -> Cells:
    """Minutes of an epoch with their deviations, and pairs per second of 549,367 training pairs."""
    printed = {  # Niculae & Blondel (2017), Table 3: hours, minutes, seconds, deviation in seconds
        "softmax": (1, 26, 40, 51),
        "sparsemax": (1, 24, 21, 54),
        "fusedmax": (1, 23, 58, 50),
        "oscarmax (as published)": (1, 23, 19, 50),
    }
    cells: Cells = {}
    seconds = {row: 3600 * h + 60 * m + s for row, (h, m, s, _) in printed.items()}
    for row, (*_, deviation) in printed.items():
        cells["rows", row, "pairs/s"] = round(549_367 / seconds[row], 1)
        cells["rows", row, "pairs/s ÷ softmax"] = round(seconds["softmax"] / seconds[row], 2)
        cells["rows", row, "minutes per epoch"] = round(seconds[row] / 60, 2)
        cells["deviations", row, "minutes per epoch"] = round(deviation / 60, 2)
    return cells


def beside_softmax(column: str, printed: Mapping[str, float], power: int) -> Cells:
    """Values of a column, and their ratios to softmax (power 1), or the inverses of these (-1)."""
    ratios = {row: (value / printed["softmax"]) ** power for row, value in printed.items()}
    return {
        **{("rows", row, column): float(value) for row, value in printed.items()},
        **{("rows", row, "÷ softmax"): round(ratio, 2) for row, ratio in ratios.items()},
    }


MINUTES = {  # Niculae & Blondel (2017), Table 5
    "softmax": 2 * 60, "sparsemax": 2 * 60 + 18, "fusedmax": 3 * 60 + 5,
    "oscarmax (as published)": 3 * 60 + 25, "sq-pnorm-max (FISTA)": 7 * 60 + 5,
}  # fmt: skip
SPEEDS = {  # Peters et al. (2019), §4.2: target words per second
    "softmax": 14_500, "1.5-entmax, sorting": 13_000, "1.5-entmax, bisection": 10_500,
}  # fmt: skip
OF_ROUGE_L = "P R F1"
SUMMARIES = [
    f"{test} {score}" for test in ("DUC 2004", "Gigaword")
    for score in ("ROUGE-1", "ROUGE-2", "ROUGE-L")
]  # fmt: skip
PAIRS = [
    f"{pair} {metric}" for pair in ("De-En", "Ja-En", "Ro-En")
    for metric in ("BLEU", "METEOR", "REP", "DROP")
]  # fmt: skip
ALIGNMENTS = ["MultiNLI accuracy", "MultiNLI nonzero", "SNLI accuracy", "SNLI nonzero"]
LANGUAGES = ["en", "zh", "vi", "ro", "ja"]
SETTINGS = ["high (avg.)", "high (ens.)", "medium (avg.)", "medium (ens.)"]
DIRECTIONS = ["DE→EN", "EN→DE", "JA→EN", "EN→JA", "RO→EN", "EN→RO"]

PUBLISHED: dict[str, Cells] = {
    "niculae2017/table1": block(["accuracy"], """
        softmax 81.66
        sparsemax 82.39
        fusedmax 82.41
        oscarmax 81.76
    """),
    "niculae2017/table2": block(SUMMARIES, """
        softmax 27.16 9.48 24.47 35.13 17.15 32.92
        sparsemax 27.69 9.55 24.96 36.04 17.78 33.64
        fusedmax 28.42 9.96 25.55 36.09 17.62 33.69
        oscarmax 27.84 9.46 25.14 35.36 17.23 33.03
        sq-pnorm-max 27.94 9.28 25.08 35.94 17.75 33.66
    """),
    "niculae2017/table3": snli_times(),
    "niculae2017/table4": block(corpora("from English"), """
        softmax 36.94 37.20 36.12 34.97 27.13 24.86 17.71 22.32 14.54 11.02 11.95
        sparsemax 37.03 37.21 36.12 35.09 26.99 24.49 17.61 22.43 14.85 11.07 11.66
        fusedmax 37.08 36.73 36.04 34.30 26.89 24.47 17.19 22.25 14.28 11.27 11.32
        oscarmax 36.66 36.89 35.96 34.86 27.02 24.76 17.26 22.42 14.02 11.19 11.63
        sq-pnorm-max 37.16 37.39 36.21 34.63 27.25 24.56 17.80 - 14.45 - 11.58
    """) | block(corpora("to English"), """
        softmax 36.79 39.95 40.06 37.96 25.72 25.37 17.86 25.82 15.11 13.60 11.78
        sparsemax 36.91 40.13 40.25 38.09 25.97 25.62 17.46 25.76 14.95 13.59 12.04
        fusedmax 36.64 39.64 39.87 37.83 25.72 25.41 18.29 25.58 15.08 13.53 11.91
        oscarmax 36.90 40.05 40.17 38.12 26.13 25.65 17.89 25.69 14.94 13.71 11.70
        sq-pnorm-max 36.84 40.23 40.48 38.12 25.72 25.70 17.44 - 15.20 - 11.93
    """),
    "niculae2017/table5": beside_softmax("minutes per epoch", MINUTES, -1),
    "niculae2017/section4_2": block(
        ["target words/s ÷ softmax", "time of an epoch ÷ softmax"],
        "bound for sparsemax, fusedmax, oscarmax 0.75 1.75",
        "other_rows",
    ),
    "niculae2017/table6": block(rouge_columns("DUC 2003"), """
        softmax 26.63 8.72 23.87 16.95 27.06 8.86 24.23 17.02
        sparsemax 26.54 8.78 23.89 16.93 26.95 8.94 24.21 16.99
        fusedmax 27.12 8.93 24.39 17.28 27.48 9.04 24.66 17.30
        oscarmax 26.72 9.08 24.02 17.06 27.11 9.23 24.32 17.10
        sq-pnorm-max 26.55 8.77 23.78 16.87 26.92 8.89 24.07 16.92
    """) | block(rouge_columns("DUC 2004"), """
        softmax 27.16 9.48 24.47 17.14 27.25 9.52 24.55 17.20
        sparsemax 27.69 9.55 24.96 17.44 27.77 9.61 25.02 17.48
        fusedmax 28.42 9.96 25.55 17.78 28.43 9.96 25.55 17.79
        oscarmax 27.84 9.46 25.14 17.55 27.88 9.47 25.17 17.57
        sq-pnorm-max 27.94 9.28 25.08 17.49 28.01 9.30 25.13 17.52
    """) | block(rouge_columns("Gigaword"), """
        softmax 35.13 17.15 32.92 24.17 35.01 17.10 32.77 24.00
        sparsemax 36.04 17.78 33.64 24.69 35.97 17.75 33.54 24.55
        fusedmax 36.09 17.62 33.69 24.69 35.98 17.60 33.59 24.54
        oscarmax 35.36 17.23 33.03 24.25 35.26 17.20 32.92 24.10
        sq-pnorm-max 35.94 17.75 33.66 24.71 35.86 17.73 33.54 24.55
    """),
    "niculae2017/table7": block(rouge_columns("DUC 2003", OF_ROUGE_L), """
        softmax 29.57 20.67 23.87 30.40 20.80 24.23
        sparsemax 29.59 20.58 23.89 30.37 20.68 24.21
        fusedmax 30.02 21.11 24.39 30.75 21.15 24.66
        oscarmax 29.64 20.78 24.02 30.40 20.87 24.32
        sq-pnorm-max 29.45 20.50 23.78 30.23 20.56 24.07
    """) | block(rouge_columns("DUC 2004", OF_ROUGE_L), """
        softmax 30.54 21.00 24.47 30.59 21.13 24.55
        sparsemax 30.99 21.57 24.96 31.03 21.64 25.02
        fusedmax 32.19 21.80 25.55 32.19 21.81 25.55
        oscarmax 31.89 21.46 25.14 31.91 21.51 25.17
        sq-pnorm-max 31.42 21.55 25.08 31.46 21.63 25.13
    """) | block(rouge_columns("Gigaword", OF_ROUGE_L), """
        softmax 36.43 31.67 32.92 36.61 31.54 32.77
        sparsemax 37.32 32.18 33.64 37.54 32.07 33.54
        fusedmax 37.44 32.15 33.69 37.68 32.01 33.59
        oscarmax 36.40 31.78 33.03 36.61 31.67 32.92
        sq-pnorm-max 37.12 32.37 33.66 37.31 32.26 33.54
    """),
    "malaviya2018/table1": block(PAIRS, """
        softmax 29.51 31.43 3.37 5.89 20.36 23.83 13.48 23.30 29.67 32.05 2.45 5.59
        softmax + COVPENALTY 29.69 31.53 3.47 5.74 20.70 24.12 14.12 22.79 29.81 32.15 2.48 5.49
        softmax + COVVECTOR 29.63 31.54 2.93 5.65 21.53 24.50 11.07 22.18 30.08 32.22 2.42 5.47
        sparsemax 29.73 31.54 3.18 5.90 21.28 24.25 13.09 22.40 29.97 32.12 2.19 5.60
        sparsemax + COVPENALTY 29.83 31.60 3.24 5.79 21.64 24.49 13.36 21.91 30.07 32.20 2.20 5.47
        sparsemax + COVVECTOR 29.22 31.18 3.13 6.15 21.35 24.74 10.11 21.25 29.30 31.84 2.18 5.87
        csoftmax (c = 0.2) 29.39 31.33 3.29 5.86 20.71 24.00 12.38 22.73 29.39 31.83 2.37 5.64
        csparsemax (c = 0.2) 29.85 31.76 2.67 5.23 21.31 24.51 11.40 21.59 29.77 32.10 1.98 5.44
    """),
    "malaviya2018/table2": block(["BLEU", "METEOR"], """
        CONSTANT, f = 2 29.66 31.60
        CONSTANT, f = 3 29.64 31.56
        GUIDED 29.56 31.45
        PREDICTED, c = 0 29.78 31.60
        PREDICTED, c = 0.2 29.85 31.76
    """),
    "niculae2018/table1": block(LANGUAGES, """
        Structured SVM 87.02 81.94 69.42 87.58 96.24
        CRF 86.74 83.18 69.10 87.13 96.09
        SparseMAP 86.90 84.03 69.71 87.35 96.04
        m-SparseMAP 87.34 82.63 70.87 87.63 96.03
    """) | block(LANGUAGES, """
        UDPipe baseline 87.68 82.14 69.63 87.36 95.94
    """, "other_rows"),
    "niculae2018/table2": block(ALIGNMENTS, """
        softmax 76.05 100 86.52 100
        sequential 75.54 13 86.62 19
        matching 76.13 8 86.05 15
    """),
    "niculae2018/section5_2": block(
        ["MultiNLI time of an epoch ÷ softmax", "SNLI time of an epoch ÷ softmax"],
        "structured attention of Kim et al. (2017) 5 5",
        "other_rows",
    ),
    "peters2019/table1": block(SETTINGS, """
        1 / 1 93.15 94.20 82.55 85.68
        1 / 1.5 92.32 93.50 83.20 85.63
        1 / 2 90.98 92.60 83.13 85.65
        1.5 / 1 94.36 94.96 84.88 86.38
        1.5 / 1.5 94.44 95.00 84.93 86.55
        1.5 / 2 94.05 94.74 84.93 86.59
        2 / 1 94.59 95.10 84.95 86.41
        2 / 1.5 94.47 95.01 85.03 86.61
        2 / 2 94.32 94.89 84.96 86.47
    """) | block(SETTINGS, """
        UZH (2018) - 96.00 - 86.64
    """, "other_rows"),
    "peters2019/table2": block(DIRECTIONS, """
        softmax 25.70 21.86 20.22 25.21 29.12 28.12
        1.5-entmax 26.17 22.42 20.55 26.00 30.15 28.84
        sparsemax 24.69 20.82 18.54 23.84 29.20 28.03
    """) | block(DIRECTIONS, """
        softmax 0.15 0.09 0.08 0.29 0.18 0.18
        1.5-entmax 0.13 0.08 0.30 0.31 0.06 0.10
        sparsemax 0.22 0.19 0.11 0.37 0.16 0.16
    """, "deviations"),
    "peters2019/table3": block(["# attended", "# target words"], """
        softmax 24.25 17993
        1.5-entmax 5.55 16.13
        sparsemax 3.75 7.55
    """),
    "peters2019/figure6": block(["target words/s"], """
        softmax 14500
        1.5-entmax, sorting 13000
        1.5-entmax, bisection 10500
    """),
    "peters2019/section4_1": block(
        ["high single", "medium single", "high exact", "medium exact"],
        "best configuration 81 66 87 79",
        "other_rows",
    ),
    "peters2019/section4_2": beside_softmax("target words/s", SPEEDS, 1),
}  # fmt: skip
