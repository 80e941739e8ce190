from dataclasses import replace
from pathlib import Path

import pytest
import torch
from executed import composer, executed
from figure_runs import runs_in
from predicted import own_examples, predicted, printed
from stored_statistics import assert_sums_give_the_records

from repro.config import ConfigError
from repro.config.compose import compose_run
from repro.data.alignment.model import train_two_way
from repro.data.corpora import declared
from repro.data.corpora.translation import ParallelTexts
from repro.data.demo.translation import grammar
from repro.data.parallel import read_pairs
from repro.data.vocabulary import SINK
from repro.decoding.penalties import Penalties
from repro.errors import DataError
from repro.evaluation.meteor import METEOR_JAR, MeteorError
from repro.evaluation.metrics import METRICS
from repro.evaluation.metrics.translation import Translations, drop_counts
from repro.evaluation.sufficient_statistics import metric_value, percentage_of_sums
from repro.models.seq2seq.fertility import ConstantFertility, PredictedFertility, TableFertility
from repro.report.figures import figure_kind
from repro.results import OWN_SPLIT
from repro.tasks.nmt import identify
from repro.tasks.nmt.task import NmtTask, check
from repro.tasks.text_pairs import TextPairsTask
from repro.training.seeding import seed_everything

CPU = torch.device("cpu")
config = composer(
    "task=nmt", "hardware=cpu", "hardware.parallel_runs=1", "model.embedding_size=16",
    "model.hidden_size=16", "model.fertility.epochs=1", "task.stored_examples=3",
    "training.max_steps=5", "decoding.max_length=20", "decoding.beam_size=2",
)  # fmt: skip
BOUNDED = ["mapping=csparsemax", "loss=cross_entropy"]


def made(root: Path, *overrides: str) -> TextPairsTask:
    seed_everything(1)
    return NmtTask(config(root, *overrides), CPU)


def test_parameters_start_within_their_bound(root):
    for bound in (0.1, 0.3):
        model = made(root, f"model.init_range={bound}").model
        largest = max(float(tensor.abs().max()) for tensor in model.state_dict().values())
        assert 0.99 * bound < largest <= bound
    with pytest.raises(ConfigError, match=r"model\.init_range is 0\.0; expected a number > 0"):
        config(root, "model.init_range=0")


def test_only_bounded_attention_reads_a_sink(root):
    free, bounded = made(root), made(root, *BOUNDED)
    assert SINK not in free.data.source.tokens
    assert free.model.fertility is None
    (sink,) = bounded.data.source.encode([SINK])
    for pair, other in zip(bounded.data.splits["dev"], free.data.splits["dev"], strict=True):
        assert pair.source == [*other.source, sink]


def test_a_run_leaves_translations_scores_and_attention(root):
    run = config(root, *BOUNDED)
    folder = executed(run)
    data = NmtTask(run, CPU).data
    train = [(s.split(), t.split()) for s, t in read_pairs(data.texts["train"])]
    aligner = train_two_way(train).pruned()
    for split in ("dev", "test"):
        lines = (folder.predictions / f"{split}.txt").read_text("utf-8").splitlines()
        texts = list(read_pairs(data.texts[split]))
        gold = [target for _, target in texts]
        ours, theirs = [line.split() for line in lines], [line.split() for line in gold]
        for name in ("bleu", "rep"):
            value = METRICS[name].value(Translations(ours, theirs))
            assert folder.read_record().metrics[f"{split}/{name}"] == value
        sources = [source.split() for source, _ in texts]
        links = [
            next(aligner.align([(source, words)])) if words else frozenset()
            for source, words in zip(sources, ours, strict=True)
        ]
        wanted = aligner.align(list(zip(sources, theirs, strict=True)))
        drop = metric_value(drop_counts(links, wanted), percentage_of_sums)
        assert folder.read_record().metrics[f"{split}/drop"] == drop
    assert_sums_give_the_records(folder)
    rows = folder.read_attention()
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert rows[0]["source"][-1] == SINK
    assert rows[0]["gold"] == next(read_pairs(data.texts["dev"]))[1]
    kind = figure_kind("attention")
    assert kind.describe(kind.gather(runs_in(csparsemax=folder)))

    sources = data.corpus.splits["test"].source.read_text("utf-8").splitlines()
    stored = (folder.predictions / "test.txt").read_text("utf-8")
    assert printed(folder.path, sources) == stored
    dev = data.corpus.splits["dev"].source.read_text("utf-8").splitlines()
    for row, one in zip(rows, predicted(folder.path, dev[:3], 2, weights=True), strict=True):
        assert (one.attention.columns, one.attention.rows) == (row["source"], row["output"])
        torch.testing.assert_close(one.attention.weights, torch.tensor(row["weights"]))
        assert [best.output for best in one.n_best][:1] == [one.output]
        assert one.n_best[0].log_probability == one.log_probability <= 0
    gold = data.corpus.splits["dev"].target.read_text("utf-8").splitlines()
    own = own_examples(folder.path, root / "own.txt", dev[:3], gold[:3])
    assert own.read_attention() == [row | {"split": OWN_SPLIT} for row in rows]
    assert own.read_forced() == [row | {"split": OWN_SPLIT} for row in folder.read_forced()]
    with pytest.raises(DataError, match=r"own\.gold\.txt: expected 3 lines"):
        own_examples(folder.path, root / "own.txt", dev[:3], gold[:2])


def test_greedy_search_is_a_beam_of_one(root):
    task = made(root, "decoding.beam_size=1")
    task.model.eval()
    with torch.no_grad():
        (first, *_) = task._outputs(task._search("dev", False), Penalties())
        pair = task.data.splits["dev"][0]
        source = torch.tensor([pair.source])
        state, previous = task.model.start(source, torch.tensor([len(pair.source)])), 2
        words: list[int] = []
        while len(words) < 20 and previous != 3:
            output = task.model.step(state, torch.tensor([previous]))
            state, previous = output.state, int(output.probs.argmax())
            words.append(previous)
    assert first == task.data.target.decode(words)


def test_constant_and_guided_fertilities(root):
    constant = made(root, *BOUNDED, "model.fertility.strategy=constant", "model.fertility.value=3")
    assert isinstance(constant.model.fertility, ConstantFertility)
    pair = constant.data.splits["dev"][0]
    source = torch.tensor([pair.source])
    bounds = constant.model.fertility(source, torch.tensor([source.shape[1]]))
    assert bounds.tolist() == [[3.0] * (len(pair.source) - 1) + [torch.inf]]
    guided = made(root, *BOUNDED, "model.fertility.strategy=guided").model.fertility
    assert isinstance(guided, TableFertility)
    assert guided.table.min() == 1
    assert guided.table.max() > 1
    assert (guided.table == guided.table.round()).all()


def test_predicted_fertilities_are_learned_and_then_kept(root):
    settings = ("margin=1", "epochs=8", "learning_rate=0.01")
    learned = [f"model.fertility.{setting}" for setting in settings]
    task = made(root, *BOUNDED, *learned)
    fertility = task.model.eval().fertility
    assert isinstance(fertility, PredictedFertility)
    assert not any(parameter.requires_grad for parameter in fertility.parameters())
    again = made(root, *BOUNDED, *learned).model.fertility
    for name, tensor in fertility.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], tensor, rtol=0, atol=0)
    rules = grammar(task.config.data.seed, longest=2)
    kinds = {verb: "particle" for verb, _ in rules["PARTICLE"]}  # two target words
    kinds |= {verb: "plain" for verb, _ in rules["PLAIN"]}  # one target word
    found: dict[str, list[float]] = {"particle": [], "plain": []}
    for pair in task.data.splits["dev"]:
        source = torch.tensor([pair.source])
        bounds = fertility(source, torch.tensor([source.shape[1]]))[0].tolist()
        for word, bound in zip(task.data.source.decode(pair.source), bounds, strict=True):
            if word in kinds:
                found[kinds[word]].append(bound)
        assert bounds[-1] == torch.inf
    means = {kind: sum(values) / len(values) for kind, values in found.items()}
    assert 1.7 < means["plain"] < 2.2 < 2.4 < means["particle"]  # links and the margin of one


def test_penalties_are_the_best_of_the_grid(root):
    grid = [0.0, 0.5]
    task = made(
        root, "mapping=softmax", "decoding.tune_penalties=true", f"decoding.penalty_grid={grid}"
    )
    task.model.eval()
    found = task._search("dev", True)
    chosen = task._tuned_penalties(found)
    quality = {
        (alpha, beta): task.quality(task._outputs(found, Penalties(alpha, beta)))
        for alpha in grid
        for beta in grid
    }
    assert quality[chosen.length, chosen.coverage] == max(quality.values())


def test_penalties_are_tuned_by_the_metric_that_is_asked_for(root):
    cased, lowered = (made(root, *metric) for metric in ([], ["task.tuned_metric=bleu_lc"]))
    gold = [target.upper().split() for _, target in read_pairs(cased.data.texts["dev"])]
    assert cased.quality(gold) < lowered.quality(gold) == pytest.approx(100)


def test_plain_text_in_subwords(tmp_path):
    folder = tmp_path / "tatoeba"
    folder.mkdir()
    for split, count in (("train", 40), ("val", 6), ("test", 5)):
        for language, word in (("de", "Haus"), ("en", "house")):
            lines = "".join(f"A {word} no. {n}, here.\n" for n in range(count))
            (folder / f"{split}.{language}").write_text(lines, "utf-8")
    run = config(
        tmp_path, "scale=small", "data.corpus=tatoeba", "data.merges=5", f"data_dir={tmp_path}"
    )
    assert identify(run).name == "tatoeba de-en"
    folder = executed(run)
    assert {"test/bleu", "test/bleu_lc", "test/bleu_13a"} <= folder.read_record().metrics.keys()
    lines = (folder.predictions / "test.txt").read_text("utf-8").splitlines()
    assert len(lines) == 5
    assert not any("@@" in line for line in lines)


def test_bounds_are_refused_where_there_are_no_fertilities(tmp_path):
    with pytest.raises(ConfigError, match="csparsemax"):
        compose_run(["mapping=csparsemax", f"results_dir={tmp_path}"])


def test_long_test_pairs_are_left_out_of_every_metric(tmp_path):
    run = config(tmp_path, "data.max_test_length=8")
    folder = executed(run)
    whole, data = made(tmp_path).data, NmtTask(run, CPU).data
    short = [
        pair for pair in read_pairs(whole.texts["test"]) if max(map(len, map(str.split, pair))) <= 8
    ]
    assert 0 < len(short) < len(whole.splits["test"])
    assert list(read_pairs(data.texts["test"])) == short
    lines = (folder.predictions / "test.txt").read_text("utf-8").splitlines()
    gold = [target.split() for _, target in short]
    texts = Translations([line.split() for line in lines], gold)
    assert folder.read_record().metrics["test/bleu"] == METRICS["bleu"].value(texts)
    assert {len(rows) for name, rows in folder.read_statistics().items() if "test/" in name} == {
        len(short)
    }
    assert len((folder.predictions / "dev.txt").read_text("utf-8").splitlines()) == len(
        whole.splits["dev"]
    )


def test_translations_have_the_least_length(root):
    task = made(root, "loss=cross_entropy", "decoding.min_length=5")
    task.model.eval()
    with torch.no_grad():
        task.model.scores.bias[3] = 10.0  # the end before everything else
        outputs = task._outputs(task._search("dev", False), Penalties())
    assert {len(words) for words in outputs} == {4}
    with pytest.raises(ConfigError, match=r"decoding\.min_length is 21; expected .* at most .* 20"):
        made(root, "decoding.min_length=21")


def test_a_program_of_meteor_without_java_is_refused_before_training(tmp_path, monkeypatch):
    jar = config(tmp_path).corpus_path / METEOR_JAR
    jar.parent.mkdir(parents=True)
    jar.touch()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MeteorError, match="no `java` on the PATH"):
        check(config(tmp_path))


def test_another_number_of_short_pairs_than_published_is_warned_of(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "wmt16_ro_en"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        for language, word in (("ro", "casa"), ("en", "house")):
            lines = "".join(f"{word} {n % 10} {'x ' * (n % 80)}\n" for n in range(1, 161))
            (folder / f"{split}.{language}").write_text(lines, "utf-8")
    common = ("scale=full", "data.corpus=wmt16_ro", "data.source=ro", f"data_dir={tmp_path}")
    prepared = config(tmp_path, *common)
    (count,) = {len(made(tmp_path, *common).data.splits["train"])}
    assert 0 < count < 160
    known = declared(ParallelTexts, "data.corpus", "wmt16_ro")
    for published, warned in ((count, False), (2 * count, True)):
        declaration = replace(known, short_pairs=published)
        monkeypatch.setattr("repro.tasks.nmt.task.declared", lambda *_, found=declaration: found)
        caplog.clear()
        check(prepared)
        check(config(tmp_path, *common, "data.merges=10"))  # nobody counted these
        numbers = [record.args for record in caplog.records]
        assert numbers == ([("wmt16_ro", count, 50, published)] if warned else [])
