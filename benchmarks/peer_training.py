"""Speed of training compared with JoeyNMT, on models and random data of equal sizes.

``python -m benchmarks.training --joeynmt PYTHON`` runs updates of the rows here and of JoeyNMT's
recurrent model in turn. JoeyNMT has its own interpreter, whose versions of packages may differ.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.timing import processor_seconds
from repro.losses import FenchelYoungLoss
from repro.mappings import Entmax, ProbabilityMap, Softmax
from repro.models.seq2seq import FreeNormalizer, GlobalAttention, LstmShape, Seq2Seq

Update = Callable[[], float]
"""Function that updates the parameters once and returns the CPU time in seconds."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model and of its batches, equal for every row."""

    vocabulary: int = 2500
    embedding_size: int = 256
    hidden_size: int = 256
    layers: int = 1
    dropout: float = 0.3
    batch: int = 128
    source: int = 18
    target: int = 17


class PeerError(RuntimeError):
    """Raised if JoeyNMT does not run in its interpreter."""


def compare(python: str, sizes: Sizes, before: int, updates: int, bfloat16: bool) -> str:
    """Time updates of every row in turn and return the table.

    Args:
        python: interpreter that has JoeyNMT.
        sizes: sizes of every model.
        before: number of updates before those that are timed.
        updates: number of timed updates.
        bfloat16: add rows with products in bfloat16, which are slow without hardware support.

    Raises:
        PeerError: JoeyNMT does not run in ``python``.
    """
    worker = str(Path(__file__).with_name("peer_training_joeynmt.py"))
    command, pipe = [python, worker, json.dumps(asdict(sizes))], subprocess.PIPE
    try:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            versions, peer = _peer(process)
            rows = {
                versions: peer,
                "softmax": _row(sizes, Softmax(), torch.float32),
                "1.5-entmax, both sides": _row(sizes, Entmax(1.5), torch.float32),
            }
            if bfloat16:
                rows["softmax, bfloat16"] = _row(sizes, Softmax(), torch.bfloat16)
                rows["1.5-entmax, bfloat16"] = _row(sizes, Entmax(1.5), torch.bfloat16)
            seconds = [[update() for update in rows.values()] for _ in range(before + updates)]
    except OSError as error:
        raise PeerError(f"--joeynmt {python}: {error}") from None
    return _table(list(rows), seconds[before:], sizes.batch * sizes.target)


def _peer(process: subprocess.Popen[str]) -> tuple[str, Update]:
    """Return the versions that JoeyNMT reports, and a function that requests an update."""
    assert process.stdin is not None
    assert process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def answer() -> str:
        line = answers.readline()
        if not line:
            raise PeerError("JoeyNMT stopped; its message is printed above")
        return line.strip()

    def update() -> float:
        requests.write("update\n")
        requests.flush()
        return float(answer())

    return answer(), update


def _row(sizes: Sizes, mapping: ProbabilityMap, dtype: torch.dtype) -> Update:
    """Return a timed update of a model whose attention and output use ``mapping``."""
    shape = LstmShape(sizes.embedding_size, sizes.hidden_size, sizes.layers, sizes.dropout)
    attention = GlobalAttention(sizes.hidden_size, sizes.hidden_size, FreeNormalizer(mapping))
    model = Seq2Seq(sizes.vocabulary, sizes.vocabulary, shape, attention, mapping)
    criterion = FenchelYoungLoss(mapping, ignore_index=0, reduction="sum")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    lengths = torch.full((sizes.batch,), sizes.source)

    def update(source: Tensor, target: Tensor) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            scores = model(source, lengths, target).scores
        loss = criterion(scores.float(), target) / sizes.batch
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    def timed() -> float:
        source = torch.randint(4, sizes.vocabulary, (sizes.batch, sizes.source))
        target = torch.randint(4, sizes.vocabulary, (sizes.batch, sizes.target))
        return processor_seconds(lambda: update(source, target))

    return timed


def _table(names: Sequence[str], seconds: Sequence[Sequence[float]], words: int) -> str:
    lines = [
        "| row | target words/s | median ms of an update | times the first row |",
        "|:---|---:|---:|---:|",
    ]
    for name, spent in zip(names, zip(*seconds, strict=True), strict=True):
        times = median(peer[0] / own for peer, own in zip(seconds, spent, strict=True))
        middle = median(spent)
        lines.append(f"| {name} | {words / middle:,.0f} | {1000 * middle:.0f} | {times:.3f} |")
    return "\n".join(lines)
