"""Two hundred updates of each task with the solvers of the papers end in a record.

Their iterations take another course with each instruction set. `make test-processors` runs these
tests with other sets than this machine's; they take four minutes, so `make test` leaves them out.
"""

import math
import os

import pytest
from executed import executed

from repro.config.compose import compose_run
from repro.results import read_record

pytestmark = pytest.mark.skipif(
    "ATEN_CPU_CAPABILITY" not in os.environ, reason="run by make test-processors"
)
SEQ2SEQ = [
    "model.embedding_size=16", "model.hidden_size=16", "decoding.beam_size=2",
    "decoding.max_length=20", "training.validate_every=1000", "training.batch_size=8",
]  # fmt: skip
NMT = ["task=nmt", "loss=cross_entropy", *SEQ2SEQ]
MORPHOLOGY = ["task=morphology", "loss=entmax", "decoding.max_hypotheses=10", *SEQ2SEQ]
SUMMARIES = ["task=summarization", "loss=cross_entropy", *SEQ2SEQ]
SNLI = ["task=snli", "model.vector_size=6", "model.hidden_size=6"]
NLI = ["task=nli_alignment", "model.vector_size=6", "model.hidden_size=6", "model.embedding_std=1"]
PARSING = [
    "task=parsing", "model.word_size=8", "model.tag_size=4", "model.lstm_size=8", "model.arc_size=8"
]  # fmt: skip
FISTA = ["mapping=sq_pnorm_max", "mapping.solver=fista", "mapping.gamma=4"]
CASES = {
    "fista": [*NMT, *FISTA],
    "fista of a steep norm": [*NMT, *FISTA, "mapping.p=1.2", "training.max_steps=1"],
    "fista of pairs": [*SNLI, *FISTA],
    "fista of summaries": [*SUMMARIES, *FISTA],
    "sorting": [*MORPHOLOGY, "mapping=entmax", "mapping.solver=sort"],
    "sorting for sparsemax": [*NMT, "mapping=entmax", "mapping.alpha=2", "mapping.solver=sort"],
    "bisection": [*MORPHOLOGY, "mapping=entmax", "mapping.alpha=1.25", "mapping.solver=bisection"],
    "oscarmax": [*NMT, "mapping=oscarmax", "mapping.variant=paper"],
    "active set of trees": [*PARSING, "loss=sparsemap"],
    "active set of matchings": [*NLI, "structure=matching"],
    "active set of sequences": [*NLI, "model.alignment=sequential"],
}


@pytest.mark.filterwarnings("default::repro.mappings.ConvergenceWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_training_with_the_solvers_of_the_papers_ends(case, tmp_path):
    common = ["hardware=cpu", "hardware.threads=1", "training.max_steps=200", "seed=1"]
    folder = executed(compose_run([*common, *CASES[case], f"results_dir={tmp_path}"]))
    metrics = read_record(folder.path / "record.json").metrics
    assert metrics
    assert all(math.isfinite(value) for value in metrics.values())
