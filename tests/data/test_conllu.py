import re
from pathlib import Path

import pytest

from repro.data.dependencies.conllu import COLUMNS, format_sentence, parse_conllu, write_conllu
from repro.errors import DataError


def row(place: object, head: object, form: str = "w", **columns: str) -> str:
    values = {"ID": str(place), "FORM": form, "HEAD": str(head), "UPOS": "X"} | columns
    return "\t".join(values.get(column, "_") for column in COLUMNS)


RICH = "\n".join(
    [
        "# newdoc id = d",
        "# sent_id = s 1",
        "# text = vámonos al mar",
        row("1-2", "_", "vámonos", UPOS="_"),
        row(1, 0, "vamos", UPOS="VERB", FEATS="Number=Plur|Person=1", DEPREL="root"),
        row(2, 1, "nos", MISC="SpaceAfter=No"),
        row("2.1", "_", "hoy", DEPS="1:advmod"),
        row("2.2", "_", "ya", DEPS="1:advmod"),
        row("3-4", "_", "al"),
        row(3, 5, "a"),
        row(4, 5, "el"),
        row(5, 1, "el mar azul"),
        "",
        row("0.1", "_", "empty"),
        row(1, 2),
        row(2, 0),
        "",
        "",
    ]
)


def parse(text: str):  # type: ignore[no-untyped-def]
    return parse_conllu(text.encode(), Path("x.conllu"))


def test_ranges_and_empty_nodes_are_no_words():
    first, second = parse(RICH)
    assert first.column("FORM") == ["vamos", "nos", "a", "el", "el mar azul"]
    assert first.heads == [0, 1, 5, 5, 1]
    assert first.column("UPOS") == ["VERB", "X", "X", "X", "X"]
    assert first.identifier == "s 1"
    assert second.heads == [2, 0]
    assert second.identifier == ""


def test_all_but_heads_and_relations_is_written_as_it_was_read(tmp_path):
    sentences = parse(RICH)
    write_conllu(tmp_path / "y.conllu", sentences, [one.heads for one in sentences], [(), ()])
    kept = RICH.replace("\troot\t", "\t_\t").replace("\t1:advmod\t", "\t_\t")
    assert (tmp_path / "y.conllu").read_bytes() == kept.encode()


def test_predicted_heads_replace_gold_trees_and_relations(tmp_path):
    sentences = parse(RICH)
    write_conllu(tmp_path / "y.conllu", sentences, [[2, 0, 5, 5, 1], [0, 1]], [(), ()])
    predicted = parse((tmp_path / "y.conllu").read_text(encoding="utf-8"))
    assert [sentence.heads for sentence in predicted] == [[2, 0, 5, 5, 1], [0, 1]]
    for before, after in zip(sentences, predicted, strict=True):
        assert after.comments == before.comments
        for gold, found in zip(before.rows, after.rows, strict=True):
            assert (found[7], found[8]) == ("_", "_")
            assert (*found[:6], found[9]) == (*gold[:6], gold[9])
    with pytest.raises(ValueError, match="1 heads for 5 words"):
        format_sentence(sentences[0], [0])


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        (["1\tw\t_", ""], 1, "expected 10 columns joined by TAB, found 3"),
        ([row(1, 0).replace("w", ""), ""], 1, "column FORM is empty; expected a value or _"),
        ([row(2, 0), ""], 1, "expected the ID 1, a range 1-… or an empty node 0.…, found '2'"),
        ([row(1, 0), row(1, 1), ""], 2, "expected the ID 2"),
        ([row("2-3", "_"), row(1, 0), ""], 1, "found '2-3'"),
        ([row("1.2", "_"), ""], 1, "found '1.2'"),
        ([row(1, 0), row("1.2", "_"), ""], 2, "found '1.2'"),
        ([row(1, 0), row("1.1", "_"), row("1.1", "_"), ""], 3, "found '1.1'"),
        ([row("one", 0), ""], 1, "found 'one'"),
        ([row(1, "_"), ""], 1, "expected an integer as HEAD, found '_'"),
        ([row(1, "-1"), ""], 1, "expected an integer as HEAD, found '-1'"),
        ([row(1, "1" * 5000), ""], 1, "expected an integer as HEAD, found '1111111111"),
        ([row("1-" + "2" * 5000, "_"), ""], 1, "expected the ID 1"),
        ([row("0." + "2" * 5000, "_"), ""], 1, "expected the ID 1"),
        ([row(1, 0), row(2, 3), ""], 2, "word 2 has the head 3; expected 0 (the root) or another"),
        ([row(1, 0), row(2, 2), ""], 2, "word 2 has the head 2"),
        ([row(1, 0), row(2, 0), ""], 1, "expected one word below the root, found 2: [1, 2]"),
        ([row(1, 2), row(2, 1), ""], 1, "expected one word below the root, found 0: []"),
        (["# c", row(1, 0), row(2, 3), row(3, 2), ""], 3, "found a cycle above word 2"),
        ([row(1, 0), "# late", ""], 2, "expected comments before the words only"),
        (["# alone", ""], 1, "expected a sentence with words"),
        ([row(1, 0), "", "", row(1, 0), ""], 3, "found a second empty line"),
        ([row(1, 0)], 1, "expected an empty line after the last sentence"),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(lines, place, message):
    text = "".join(f"{line}\n" for line in lines)
    with pytest.raises(DataError, match=f"^{re.escape(f'x.conllu:{place}: ')}") as caught:
        parse(text)
    assert message in str(caught.value)


def test_empty_and_undecodable_files_are_refused():
    with pytest.raises(DataError, match="is empty: expected sentences"):
        parse("")
    with pytest.raises(DataError, match=r"x\.conllu:2: not UTF-8"):
        parse_conllu(b"# a\n\xff\n", Path("x.conllu"))
