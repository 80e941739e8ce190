"""The demo treebanks of dependency parsing, in the layout of Universal Dependencies."""

from pathlib import Path
from random import Random

from repro.data.demo.grammar import Grammar, Node, build_lexicon
from repro.data.errors import DataError
from repro.data.files import write_if_changed

HEAD_FINAL = {"UD_Demo-Initial": False, "UD_Demo-Final": True}
SIZES = {"train": 300, "dev": 80, "test": 80}


def write_demo_treebank(data_dir: Path, release: str, treebank: str, seed: int = 2018) -> None:
    """Write one invented treebank under ``data_dir/ud-treebanks-v<release>/<treebank>``.

    Every file is written atomically; one that is there with the right bytes is left alone.

    Args:
        data_dir: folder that the reader takes as its ``data_dir``.
        release: part of the folder's name.
        treebank: ``"UD_Demo-Initial"`` (heads precede their dependents) or
            ``"UD_Demo-Final"`` (behind them).
        seed: the treebank is a pure function of it and of the name.

    Raises:
        DataError: there is no such invented treebank.
    """
    if treebank not in HEAD_FINAL:
        raise DataError(
            f"data.treebank={treebank}: no such demo treebank; choose from: {', '.join(HEAD_FINAL)}"
        )
    folder = Path(data_dir) / f"ud-treebanks-v{release}" / treebank
    code = treebank.removeprefix("UD_").replace("-", "_").lower()
    for split, text in demo_texts(treebank, seed).items():
        write_if_changed(folder / f"{code}-ud-{split}.conllu", text.encode())


def demo_texts(treebank: str, seed: int) -> dict[str, str]:
    """The text of every split; no sentence occurs twice."""
    random = Random(f"{seed} {treebank}")
    grammar = Grammar(build_lexicon(random), random, HEAD_FINAL[treebank])
    seen: set[str] = set()
    texts = {}
    for split, size in SIZES.items():
        blocks: list[str] = []
        while len(blocks) < size:
            words = grammar.sentence()
            text = " ".join(node.form for node in words)
            if text not in seen:
                seen.add(text)
                blocks.append(_block(words, f"{split}-{len(blocks) + 1}", text))
        texts[split] = "".join(blocks)
    return texts


def _block(words: list[Node], name: str, text: str) -> str:
    places = {id(node): place for place, node in enumerate(words, start=1)}
    head_of = {
        id(child): places[id(node)] for node in words for child in (*node.before, *node.after)
    }
    lines = [f"# sent_id = {name}", f"# text = {text}"]
    for place, node in enumerate(words, start=1):
        head = head_of.get(id(node), 0)
        columns = (str(place), node.form, node.lemma, node.upos, "_", "_", str(head), node.deprel)
        lines.append("\t".join((*columns, "_", "_")))
    return "\n".join(lines) + "\n\n"
