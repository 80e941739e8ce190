"""The command ``repro predict``: inputs from a file, a stream or the command line, and outputs."""

import io
import json
import os
import re
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from repro.atomic import atomic_write_bytes
from repro.config.errors import ConfigError
from repro.config.restore import RESTORED_CHANGES
from repro.data.files import decoded_lines
from repro.errors import say
from repro.prediction import Prediction, Wanted
from repro.results import ResultsError

if TYPE_CHECKING:
    from repro.runs.loading import LoadedRun

MOST_DRAWN = 50
"""Maximum number of inputs that ``--heatmap`` draws."""
_DRAWINGS = (".svg", ".png", ".pdf", ".html")


def _sorted(parsed: Namespace) -> tuple[list[str], Path | None, list[str], list[str]]:
    """Sort arguments into runs, a file of inputs if any, changes of settings, and filters of runs.

    Raises:
        ConfigError: a setting is unknown, or arguments do not fit together.
    """
    settings = [item for item in parsed.settings if "=" in item]
    words = [item for item in parsed.settings if item not in settings]
    named = re.compile("[0-9a-f]{1,12}").fullmatch
    runs = [w for w in words if Path(w).is_dir() or (named(w) and not Path(w).is_file())]
    files = [Path(word) for word in words if word not in runs and word != "-"]
    changes = [item for item in settings if item.startswith(RESTORED_CHANGES)]
    filters = [item for item in settings if item not in changes]
    drawing = parsed.heatmap
    if drawing is not None and drawing.suffix not in _DRAWINGS:
        raise ConfigError(f"--heatmap {drawing}: expected a file {', '.join(_DRAWINGS)}")
    if files and parsed.text and not files[-1].exists():
        raise ConfigError(f"{files[-1]}: expected a run, by its identity, or a folder of one")
    if len(files) > 1 or (files and parsed.text):
        raise ConfigError(f"{files[-1]}: expected one file of inputs, or --text")
    if parsed.n_best < 1 or (parsed.n_best > 1 and not parsed.json):
        raise ConfigError(f"--n-best {parsed.n_best}: expected a number above 0, and --json")
    if filters and not parsed.best:
        raise ConfigError(f"{filters[0]}: expected decoding.KEY=..., hardware=..., results_dir=...")
    for word in runs:
        if not (named(word) or (Path(word) / "config.yaml").is_file()):
            raise ConfigError(f"{word} has no config.yaml; expected a run, or a file of inputs")
    if bool(runs) == bool(parsed.best):
        raise ConfigError("expected a run, by its identity or by --best METRIC KEY=VALUE")
    if len(runs) > 1 and not (drawing and (files or parsed.text)):
        raise ConfigError("several runs need --heatmap, and --text or a file of inputs")
    for path in files:
        path.open("rb").close()  # a missing file is named before a model is loaded
    return runs, files[0] if files else None, changes, filters


def print_predictions(parsed: Namespace, results_dir: Path) -> None:
    """Print the predictions of the runs, and draw their attention if a heat map is wanted.

    Raises:
        ConfigError: a setting is unknown, or arguments do not fit together.
        DataError: an input is malformed or too long; those before it are printed.
        ResultsError: there are too many inputs for a drawing, or no attention to draw.
    """
    names, path, changes, filters = _sorted(parsed)
    heatmap = parsed.heatmap
    wanted = Wanted(parsed.n_best, parsed.json or heatmap is not None)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    from repro.runs.loading import best_run, load_run  # imports torch

    if parsed.best is not None:
        names = [best_run(results_dir, parsed.best, filters)]
    runs = [load_run(name, *changes, results_dir=results_dir) for name in names]
    if parsed.best is not None:
        say(f"best: {runs[0]!r}")
    several, drawn = len(runs) > 1, list[Mapping[str, Prediction]]()
    for run in runs:
        twice = [one.label for one in runs].count(run.label) > 1
        label = f"{run.label}, {run.run_id}" if twice else run.label
        for place, prediction in enumerate(_predictions(run, parsed.text, path, wanted)):
            if parsed.text and prediction.unknown:
                words = ", ".join(dict.fromkeys(prediction.unknown))
                say(f"unknown to run {run.run_id}: {words}")
            if parsed.json:
                row = {"run": run.run_id, **prediction.described()}
                print(json.dumps(row, ensure_ascii=False))
            else:
                print(f"{run.run_id}\t{prediction.line}" if several else prediction.line)
            if heatmap is not None:
                if place == MOST_DRAWN:
                    raise ResultsError(f"{heatmap}: at most {MOST_DRAWN} inputs are drawn")
                drawn += [{}] * (place == len(drawn))
                drawn[place] = {**drawn[place], label: prediction}
    if heatmap is not None:
        _draw(drawn, heatmap)


def _draw(drawn: Sequence[Mapping[str, Prediction]], path: Path) -> None:
    from repro.report.figures import predictions as figures

    if not drawn:
        raise ResultsError(f"{path}: there is no input to draw")
    if path.suffix == ".html":
        content = figures.predictions_page(drawn).encode()
    else:
        canvas = figures.draw_predictions(drawn)
        match path.suffix:
            case ".svg":
                content = canvas.svg("attention", figures.describe(drawn)).encode()
            case ".pdf":
                content = canvas.pdf()
            case _:
                content = canvas.png()
    atomic_write_bytes(path, content)


def _predictions(
    run: "LoadedRun", texts: Sequence[str], file: Path | None, wanted: Wanted
) -> Iterator[Prediction]:
    """Predict texts, a file or standard input; show progress if only errors go to a terminal."""
    if texts:
        yield from run.predict(texts, *wanted)
        return
    path = file or Path("standard input")
    opened = path.open("rb") if file else nullcontext(sys.stdin.buffer)
    shown = sys.stderr.isatty() and not sys.stdout.isatty()
    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with (
        opened as stream,
        Progress(
            *columns, console=Console(stderr=True), disable=not shown, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        ) as progress,
    ):  # fmt: skip
        status = os.fstat(stream.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        bar, read, done = progress.add_task("", total=size), 0, 0

        def counted() -> Iterator[bytes]:
            nonlocal read
            for line in stream:
                read += len(line)
                yield line

        def advance(share: float) -> None:
            nonlocal done
            progress.update(bar, completed=done + share * (read - done))
            done = read if share == 1 else done

        pool = 1 if stream.isatty() else None
        lines = decoded_lines(counted(), path)
        yield from run.stream(lines, path, wanted, pool, advance)
