from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.dependencies.conllu import parse_conllu, write_conllu
from repro.evaluation.metrics import METRICS, score_outputs
from repro.evaluation.metrics.parsing import ParsedSentences

TEXT = (
    "1-2\tdámelo\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tda\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
    "2\tme\t_\tPRON\t_\t_\t1\tobj\t_\t_\n"
    "2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\t.\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"
    "1\tsí\t_\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
)


def test_a_hand_made_example():
    """One wrong head, that of the full stop, among four words; a range is no word."""
    gold = [s.heads for s in parse_conllu(TEXT.encode(), Path("x"))]
    found = score_outputs("dev", ParsedSentences(gold, [[0, 1, 2], [0]]))
    assert found.values == {"dev/uas": 75.0, "dev/exact_trees": 50.0}
    assert found.statistics["dev/uas"].tolist() == [[2, 3], [1, 1]]
    assert found.statistics["dev/exact_trees"].tolist() == [[0, 1], [1, 1]]


@given(st.data())
def test_an_independent_count_of_the_written_files_agrees(data):
    """Lines whose ID is a plain number are compared as text, column by column."""
    import tempfile

    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    chain = [list(range(size)) for size in sizes]
    flat = [[0] + [1] * (size - 1) for size in sizes]
    guesses = [data.draw(st.sampled_from(pair)) for pair in zip(chain, flat, strict=True)]
    blocks = [
        "".join(f"{n + 1}\tw\t_\tX\t_\t_\t{head}\t_\t_\t_\n" for n, head in enumerate(heads))
        for heads in chain
    ]
    gold = parse_conllu("".join(f"{block}\n" for block in blocks).encode(), Path("gold"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "guess.conllu"
        write_conllu(path, gold, guesses, [()] * len(gold))
        system = path.read_text()
        read = [s.heads for s in parse_conllu(path.read_bytes(), path)]
    lines = "".join(f"{block}\n" for block in blocks).splitlines()
    pairs = [p for p in zip(lines, system.splitlines(), strict=True) if p[0][:1].isdigit()]
    right = sum(a.split("\t")[6] == b.split("\t")[6] for a, b in pairs)
    assert METRICS["uas"].value(ParsedSentences(chain, read)) == pytest.approx(
        100 * right / len(pairs)
    )
