"""The command line: a function for each command, whose docstring is its help.

A command imports what it needs when it runs, so that help is quick.
"""

import argparse
import csv
import errno
import gc
import io
import json
import os
import signal
import sys
import threading
import traceback
import webbrowser
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from logging import DEBUG, INFO, WARNING, getLogger
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn, TypeVar

from repro.errors import UserError, meant, refused_option, require_utf8, visible
from repro.version import __version__

T = TypeVar("T")
_Command = Callable[[argparse.Namespace], int]

_DESCRIPTION = "Rerun, check and build on four papers about sparse and structured attention."
_STOPPED = "stopped; the same command continues"
_LONGEST = 2000
"""Most characters of an error message; the longest lists of choices have about half as many."""
_LONGEST_WORD = 300
"""Most characters of a word of an error message, such as a key or a path."""
_EPILOG = """examples:
  repro run task=morphology mapping=entmax mapping.alpha=1.5 loss=entmax loss.alpha=1.5
  repro run -m mapping.alpha=1,1.25,1.5,2 seed=1,2,3
  repro reproduce peters2019/table1 scale=demo
  repro report scale=demo
  repro data verify sigmorphon2018 data_dir=data
  repro predict 3f2a input.txt > output.txt
  repro show 3f2a

options of every command: -q (only failures), -v (more), --debug (tracebacks)"""


_PREDICT = """formats of inputs and outputs, one input a line (docs/predict.md):
  nmt, summarization    a text -> a text
  morphology            lemma TAB tags [TAB language] -> lemma TAB form TAB tags
  parsing               sentences in CoNLL-U -> the same, with HEAD
  snli, nli_alignment   premise TAB hypothesis, or JSON -> label TAB probabilities

examples:
  repro predict 3f2a input.txt > output.txt
  repro predict 3f2a 91bc --text "a text" --heatmap attention.svg
  repro predict --best test/bleu task=nmt mapping=sparsemax input.txt --json
  repro predict 3f2a decoding.beam_size=10 decoding.length_penalty=0.6 < input.txt"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, 2 if a setting or a file is refused."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what an ASCII terminal lacks becomes \\u2026
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except FileNotFoundError:  # libraries fail in many ways without one
        print("repro: the working directory does not exist any more", file=sys.stderr)
        return 2
    # Options of every command, anywhere among its arguments.
    levels = {"-q": WARNING, "--quiet": WARNING, "-v": DEBUG, "--verbose": DEBUG, "--debug": DEBUG}
    chosen = [levels[item] for item in arguments if item in levels]
    getLogger("repro").setLevel(chosen[-1] if chosen else INFO)
    debug = "--debug" in arguments
    arguments = [item for item in arguments if item not in levels]
    # Imports create objects that stay: collections after each 700 of them take 8 % of a start.
    gc.set_threshold(10_000, 10, 10)
    with _sigterm_as_ctrl_c():
        try:
            status = _dispatch(arguments)
            sys.stdout.flush()
        except UserError as error:
            if debug:
                traceback.print_exc()
            print(f"repro: {visible(_shortened(str(error)))}", file=sys.stderr)
            return 2
        except BrokenPipeError:  # the reader of the output has exited, as in repro ... | head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except OSError as error:
            return _refused_by_the_system(error)
        except SystemExit:  # of argparse, which has printed its help
            try:
                sys.stdout.flush()
            except OSError as error:
                return _refused_by_the_system(error)
            raise
        except KeyboardInterrupt as stop:
            line = "\n" * sys.stderr.isatty()  # the terminal has written ^C
            print(f"{line}repro: {str(stop) or _STOPPED}", file=sys.stderr)
            return 130
        return status


def _shortened(message: str) -> str:
    """Put a message on one line, without the middle of long words, which were typed, or of it."""
    words = (_without_middle(word, _LONGEST_WORD) for word in message.split())
    return _without_middle(" ".join(words), _LONGEST)


def _without_middle(text: str, longest: int) -> str:
    kept = longest // 10
    return text if len(text) <= longest else f"{text[: longest - kept]} […] {text[-kept:]}"


class _Parser(argparse.ArgumentParser):
    """Parser whose messages are as short as those of :func:`main`."""

    def error(self, message: str) -> NoReturn:
        """Print how the command is used, and the message; exit with status 2."""
        super().error(_shortened(message))


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Clean up on SIGTERM as on Ctrl-C; schedulers send it before SIGKILL."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) or signal.SIG_DFL
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _dispatch(arguments: list[str]) -> int:
    if sys.platform == "win32":  # it has no flock, which keeps two processes out of one run
        raise UserError("Windows is not supported; use Linux, macOS or WSL")
    for item in arguments:
        require_utf8(item)
    kernels = os.environ.get("REPRO_KERNELS") or "auto"
    if kernels not in ("auto", "torch", "require"):  # mappings refuse it when they are imported
        raise UserError(f"REPRO_KERNELS is {kernels!r}; expected auto, torch or require")
    if arguments[:1] in ([], ["help"]):
        arguments = [*arguments[1:], "--help"]
    if arguments[:1] == ["run"]:  # all further arguments are Hydra's
        from repro.config.overrides import quote_folders

        hydras = quote_folders(arguments[1:], sweep=bool({"-m", "--multirun"} & {*arguments}))
        from repro.app import main as run_application

        return run_application(hydras)
    parser, commands = _parsers()
    if arguments[:1] == ["complete"]:  # what the script of `repro completion` calls
        from repro.config.completion import complete

        print("\n".join(complete(" ".join(arguments[1:]), [*commands], _words)))
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments)  # prints help or the version, or refuses; then exits
    name, *further = arguments
    if name not in commands:
        known = ", ".join(commands)
        raise UserError(f"no command {name!r}{meant(name, commands)}; there are {known}")
    parsed, unknown = commands[name].parse_known_intermixed_args(further)
    folders = ("scale", "results_dir", "data_dir")
    for option in (word for one in unknown if (word := one[2:].partition("=")[0]) in folders):
        raise UserError(f"--{option} is a setting; write {option}=VALUE")
    if unknown:
        raise UserError(refused_option(unknown[0], name))
    command: _Command = parsed.command
    return command(parsed)


def _words(command: str, typed: Sequence[str]) -> list[str]:
    """List words with which a shell completes a command: run IDs or corpora."""
    if command in ("show", "compare", "predict"):
        from repro.results import recent_runs

        return [one.run_id for one in recent_runs(_take_folder(typed, "results_dir")[0])]
    if command == "data":
        from repro.data.corpora import declared_corpora

        return [*(("list", "fetch", "verify") if not typed else declared_corpora())]
    return []


def _refused_by_the_system(error: OSError) -> int:
    """Print an error of the operating system; return 1 if writing is impossible, else 2.

    Raises:
        OSError: ``error``, if it does not come from the operating system.
    """
    if error.errno is None:
        raise error
    try:
        sys.stdout.flush()
    except OSError:  # discard output that cannot be written, or Python retries at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    where = "" if error.filename is None else f"{error.filename}: "
    print(f"repro: {visible(_shortened(f'{where}{error.strerror}'))}", file=sys.stderr)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
    return 1 if full else 2


def _parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of the command line, and those of the commands by name."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser("repro", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"repro {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("run", help="train and evaluate (a Hydra application; repro run --help)")
    for command, declared in {**_ARGUMENTS, completion: []}.items():
        text = command.__doc__ or ""
        added = commands.add_parser(command.__name__, help=f"{text[:1].lower()}{text[1:-1]}")
        added.set_defaults(command=command)
        for name, options in declared:
            added.add_argument(name, **options)
        if command is predict:
            added.description, added.epilog, added.formatter_class = text, _PREDICT, raw
    return parser, dict(commands.choices)


_ARGUMENTS = defaultdict[_Command, list[tuple[str, dict[str, Any]]]](list)
"""Commands in the order of the help, with their arguments for ``add_argument``."""


def _argument(name: str, help: str | None = None, **options: Any) -> Callable[[_Command], _Command]:
    """Declare an argument of the command below; without ``options`` it is a flag."""

    def declare(command: _Command) -> _Command:
        found = {"help": help} | (options or {"action": "store_true"})
        _ARGUMENTS[command].insert(0, (name, found))  # the last decorator is the first to run
        return command

    return declare


def _settings(metavar: str, help: str) -> Callable[[_Command], _Command]:
    return _argument("settings", help, nargs="*", default=[], metavar=metavar)


def _names(text: str) -> list[str]:
    return next(csv.reader([text])) or [""]


_JSON = _argument("--json", "print JSON (docs/scripting.md)")
_ROWS = _argument("--rows", "only these rows, as for columns", type=_names)
_COLUMNS = _argument("--columns", "only these columns, separated by commas; quote a name that "
                     "contains a comma", type=_names)  # fmt: skip


@_argument("--dry-run", "list the runs and stop")
@_argument("--detach", "submit to the cluster and exit")
@_argument("--list", "list the artefacts and stop")
@_argument("--fresh", "repeat runs of earlier versions")
@_argument("--yes", "do not ask before everything is run")
@_ROWS
@_COLUMNS
@_settings("ARTEFACT|PAPER|KEY=VALUE", "for example peters2019/table1, or peters2019; "
           "default: all. scale (default demo), and any override, hydra/launcher=... "
           "among them")  # fmt: skip
def reproduce(parsed: argparse.Namespace) -> int:
    """Run what tables and figures need, and report."""
    if parsed.list:
        from repro.config.experiment import list_experiments, load_experiment

        for name in list_experiments():
            print(f"{name:24} {load_experiment(name).title}")
        return 0
    names, scale, overrides = _chosen(parsed.settings)

    from repro.config.planning import Cells
    from repro.runs.reproduce import reproduce
    from repro.runs.summary import print_failures

    cells = Cells(parsed.rows, parsed.columns)

    if not (_parted(parsed.settings)[0] or parsed.dry_run or parsed.yes):
        if not sys.stdin.isatty():
            raise UserError("this runs every artefact; name some, or confirm with --yes")
        from repro.runs.plan import plan, print_plan

        plans, estimate = plan(names, scale, overrides, parsed.fresh, cells)
        if any(one.todo for one in plans):
            print_plan(plans, estimate)
            if not _agreed("Run all of this?"):
                return 0
    overrides += ["hydra.launcher.detach=true"] * parsed.detach
    done = reproduce(
        names, scale, overrides, cells=cells, fresh=parsed.fresh, dry_run=parsed.dry_run
    )
    if done.report is not None:
        print(done.report, flush=True)
    return 1 if print_failures(done.outcomes, done.report) else 0


def _agreed(question: str) -> bool:
    """Ask a question on the terminal; return whether the answer is yes."""
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@_argument("--sweep", "only this sweep, a page of its own", metavar="NAME")
@_settings("KEY=VALUE", "scale, results_dir")
def report(parsed: argparse.Namespace) -> int:
    """Rebuild tables, figures and report.html."""
    from repro.config.errors import ConfigError
    from repro.config.experiment import list_experiments
    from repro.config.loading import group_choices
    from repro.report import build_report, build_sweep_report
    from repro.report.mapping_page import write_mapping_page
    from repro.report.provenance import GENERATED_SCALE
    from repro.results import Archive, ResultsError, has_figure_data, require_writable, scale_dir
    from repro.runs.own_examples import write_own_examples

    gc.disable()  # nearly every object of a report lives until its end
    scale, rest = _take(parsed.settings, "scale", "demo")
    if scale not in group_choices("scale"):
        raise ConfigError(f"no scale {scale!r}; choose from: {', '.join(group_choices('scale'))}")
    archive = Archive(_folder(rest, "results_dir", "scale=... and "), scale)
    require_writable(archive.results_dir)
    if not archive.records and not has_figure_data(archive.results_dir, scale):
        place = scale_dir(archive.results_dir, scale)
        raise ResultsError(
            f"no results in {place}; `repro run scale={scale}` makes some, and `repro plan` lists "
            "what there is to reproduce"
        )
    if parsed.sweep:
        print(build_sweep_report(archive, parsed.sweep))
    else:
        write_own_examples(archive, list_experiments())
        if scale != GENERATED_SCALE:  # a minute where all kernels have to be compiled first
            write_mapping_page(archive.results_dir)
        print(build_report(archive))
    return 0


@_argument("--fresh", "count runs of earlier versions as to do")
@_ROWS
@_COLUMNS
@_JSON
@_settings("ARTEFACT|KEY=VALUE", "as for reproduce")
def plan(parsed: argparse.Namespace) -> int:
    """List runs to do and done, time, disk space, missing data."""
    names, scale, overrides = _chosen(parsed.settings)

    from repro.config.planning import Cells
    from repro.runs.plan import described, plan, print_plan

    cells = Cells(parsed.rows, parsed.columns)
    found = plan(names, scale, overrides, parsed.fresh, cells)
    _show(parsed, described(*found), lambda _facts: print_plan(*found))
    return 0


@_argument("--pivot", "aggregate over these", default="", metavar="KEY,KEY")
@_argument("--metric", "for example test/bleu,test/rep", default="", metavar="METRIC,METRIC")
@_argument("--sort", "a metric, best first, or a setting; default: newest first", metavar="KEY")
@_argument("--format", choices=("table", "csv", "json", "parquet", "latex"), default="table")
@_JSON
@_settings("KEY=VALUE", "filters, and results_dir")
def results(parsed: argparse.Namespace) -> int:
    """List, filter and aggregate finished runs."""
    from repro.report.explore import print_results

    folder, filters = _take_folder(parsed.settings, "results_dir")
    keys, metrics = (
        [one for one in text.split(",") if one] for text in (parsed.pivot, parsed.metric)
    )
    if parsed.json and parsed.format not in ("table", "json"):
        raise UserError(f"--json and --format {parsed.format}: expected one of them")
    form = "json" if parsed.json else parsed.format
    print_results(folder, filters, keys, metrics, form, parsed.sort)
    return 0


@_argument("--html", "write a page, with the curves of training", type=Path, metavar="FILE")
@_argument("--open", "open the page in a browser")
@_JSON
@_settings("RUN|KEY=VALUE", "run IDs or their prefixes, or filters as those of results; "
           "results_dir")  # fmt: skip
def compare(parsed: argparse.Namespace) -> int:
    """Compare runs: settings, metrics, significance."""
    from repro.report.explore import compare, print_comparison

    folder, rest = _take_folder(parsed.settings, "results_dir")
    names, filters = _parted(rest)
    if names and filters:
        raise UserError(f"{filters[0]}: expected runs, or filters, not both")
    file: Path | None = parsed.html
    if file is not None and file.is_dir():
        raise UserError(f"--html {file}: expected a file, found a folder")
    if parsed.open and file is None:
        file = Path(mkdtemp(prefix="repro-")) / "compare.html"
    found = compare(folder, names, filters)
    if file is not None:
        from repro.report.many_runs import comparison
        from repro.results import atomic_write_text

        atomic_write_text(file, comparison(folder, found, file))
        print(file, file=sys.stderr if parsed.json else sys.stdout)
        if parsed.open:
            webbrowser.open(file.resolve().as_uri())
    if file is None or parsed.json:
        _show(parsed, found, print_comparison)
    return 0


@_argument("action", nargs="?", choices=("list", "fetch", "verify"), default="list")
@_JSON
@_settings("CORPUS|KEY=VALUE", "a name that 'repro data list' shows; data_dir")
def data(parsed: argparse.Namespace) -> int:
    """List, fetch or verify corpora."""
    from repro.data import commands

    corpus, settings = _take_name(parsed.settings, "corpus")
    return commands.run(parsed.action, corpus, _folder(settings, "data_dir"), parsed.json)


@_argument("--text", "an input; may be repeated", action="append", default=[])
@_argument("--best", "the best run by a metric, as test/bleu, of those that agree with KEY=VALUE "
           "filters", metavar="METRIC")  # fmt: skip
@_argument("--json", "a JSON object for each input: symbols, log-probability, certificate, "
           "weights, candidates")  # fmt: skip
@_argument("--n-best", "best outputs in --json", type=int, default=1, metavar="N")
@_argument("--heatmap", "draw the attention as .svg, .png, .pdf or .html, several runs side by "
           "side", type=Path, metavar="FILE")  # fmt: skip
@_settings("RUN|INPUT|KEY=VALUE", "run IDs or their prefixes, or folders of runs; a file, "
           "standard input without one; decoding.KEY, hardware, results_dir, and filters of "
           "--best")  # fmt: skip
def predict(parsed: argparse.Namespace) -> int:
    """Predict inputs of your own with the model of a run."""
    from repro.runs.predict import print_predictions

    folder, parsed.settings = _take_folder(parsed.settings, "results_dir")
    try:
        print_predictions(parsed, folder)
    except KeyboardInterrupt:  # nothing to continue, so nothing to say
        return 130
    return 0


@_JSON
@_settings("SWEEP|KEY=VALUE", "beginning of its folder's name; results_dir")
def status(parsed: argparse.Namespace) -> int:
    """Show the progress of a sweep (default: the latest)."""
    from repro.runs.show import print_status, sweep_status

    name, settings = _take_name(parsed.settings, "sweep")
    found = sweep_status(_folder(settings, "results_dir"), name)
    _show(parsed, found, print_status)
    return 1 if found["counts"].get("failed") else 0


@_JSON
@_settings("KEY=VALUE", "data_dir, results_dir")
def doctor(parsed: argparse.Namespace) -> int:
    """Check hardware, packages and corpora, and suggest fixes."""
    from repro.runs.doctor import findings, print_findings

    data_dir, others = _take_folder(parsed.settings, "data_dir")
    found = [*findings(data_dir, _folder(others, "results_dir", "data_dir=... and "))]
    _show(parsed, [vars(one) for one in found], lambda _rows: print_findings(found))
    return int(any(one.status == "broken" for one in found))


@_argument("--yes", "do not ask before runs are removed")
@_argument("--weights", "remove weights only")
@_JSON
@_settings("list|remove|KEY=VALUE", "what to do (default: list), and filters: state, scale, "
           "run_id, settings; results_dir")  # fmt: skip
def runs(parsed: argparse.Namespace) -> int:
    """List runs with their size, state and age, or remove them."""
    from repro.results.labels import counted
    from repro.runs.cleanup import needed, print_runs, remove, run_rows, size_text

    folder, words = _take_folder(parsed.settings, "results_dir")
    named = words[:1] in (["list"], ["remove"])
    action, filters = (words[0], words[1:]) if named else ("list", words)
    rows = run_rows(folder, filters)
    if action == "list":
        _show(parsed, rows, print_runs)
        return 0
    if not filters:
        raise UserError("expected a filter, as state=interrupted or run_id=...; see repro runs")
    kept = needed(folder)
    for row in rows:
        if row["run_id"] in kept:
            print(f"{row['run_id']} kept: {kept[row['run_id']]}", file=sys.stderr)
    rows = [r for r in rows if r["run_id"] not in kept and (r["weights"] or not parsed.weights)]
    if rows and not parsed.yes:
        print_runs(rows)
        what = "the weights of these runs" if parsed.weights else "these runs"
        if not sys.stdin.isatty():
            raise UserError(f"this removes {what}; confirm with --yes")
        if not _agreed(f"Remove {what}?"):
            return 0
    freed = remove(rows, parsed.weights)
    print(f"{counted(len(freed), 'run')}, {size_text(sum(freed))} freed")
    return 0


@_argument("--config", "print the configuration as well")
@_JSON
@_settings("RUN|KEY=VALUE", "run ID or its prefix, default: the newest runs; results_dir")
def show(parsed: argparse.Namespace) -> int:
    """Show the status, metrics and settings of a run, or the newest runs."""
    from repro.runs.show import describe, newest, print_newest, print_run

    run_id, settings = _take_name(parsed.settings, "run")
    folder = _folder(settings, "results_dir")
    if run_id is None:
        if parsed.config:
            raise UserError("--config: expected a run")
        _show(parsed, newest(folder), print_newest)
    else:
        found = describe(folder, run_id)
        _show(parsed, found, lambda facts: print_run(facts, parsed.config))
    return 0


def completion(_parsed: argparse.Namespace) -> int:
    """Completion in a shell: eval "$(repro completion)"."""
    from repro.config.completion import SCRIPT

    print(SCRIPT)
    return 0


def _show(parsed: argparse.Namespace, found: T, print_: Callable[[T], None]) -> None:
    """Print what a command found, as JSON if that is asked for; no text commands the terminal."""
    found = visible(found)
    if parsed.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        print_(found)


def _chosen(arguments: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Return the artefacts that arguments name, and the scale and the overrides of their runs."""
    from repro.config.experiment import chosen_artefacts
    from repro.config.overrides import quote_folders

    names, settings = _parted(arguments)
    scale, overrides = _take(quote_folders(settings), "scale", "demo")
    return chosen_artefacts(names, scale), scale, overrides


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part arguments into names and settings, each ``KEY=VALUE``."""
    return [one for one in arguments if "=" not in one], [one for one in arguments if "=" in one]


def _take_name(arguments: Sequence[str], what: str) -> tuple[str | None, list[str]]:
    """Part arguments into the only name, if there is one, and the settings."""
    names, settings = _parted(arguments)
    if len(names) > 1:
        raise UserError(f"{names[1]}: expected one {what}")
    return names[0] if names else None, settings


def _take(settings: Sequence[str], key: str, default: str) -> tuple[str, list[str]]:
    """Split settings into the last value of ``key``, or ``default``, and all other settings."""
    chosen = [item for item in settings if item.startswith(f"{key}=")]
    rest = [item for item in settings if item not in chosen]
    return chosen[-1].partition("=")[2] if chosen else default, rest


def _take_folder(settings: Sequence[str], key: str) -> tuple[Path, list[str]]:
    """Split settings into the folder ``key``, by default the package's, and all others."""
    from repro.config import paths
    from repro.config.errors import ConfigError

    defaults = {"results_dir": paths.default_results_dir, "data_dir": paths.default_data_dir}
    value, rest = _take(settings, key, str(defaults[key]()))
    if not value.strip():
        raise ConfigError(f"{key} is {value!r}; expected a folder")
    if "${" in value:  # `repro run` alone composes a configuration
        raise ConfigError(f"{key} is {value!r}; this command reads no interpolation")
    return Path(os.path.expanduser(value)), rest


def _folder(settings: Sequence[str], key: str, others: str = "") -> Path:
    """Return the folder ``key``; refuse other settings but ``others``, which were read before."""
    folder, rest = _take_folder(settings, key)
    if rest:
        raise UserError(f"unknown setting {rest[0]!r}; this command takes {others}{key}=...")
    return folder
