"""Configurations of every task with every mapping, loss and structure that it accepts."""

from collections.abc import Iterator
from itertools import cycle

MAPPINGS = {
    "softmax": "mapping=softmax",
    "softmax-gamma": "mapping=softmax mapping.gamma=0.5",
    "sparsemax": "mapping=sparsemax",
    "sparsemax-gamma": "mapping=sparsemax mapping.gamma=0.5",
    "entmax-1.5": "mapping=entmax mapping.alpha=1.5",
    "entmax-1.25": "mapping=entmax mapping.alpha=1.25",
    "entmax-3": "mapping=entmax mapping.alpha=3",
    "entmax-sort": "mapping=entmax mapping.alpha=1.5 mapping.solver=sort",
    "entmax-bisection": "mapping=entmax mapping.alpha=1.25 mapping.solver=bisection",
    "learned-alpha": "mapping=learned_alpha_entmax",
    "normmax-2": "mapping=normmax",
    "normmax-1.5": "mapping=normmax mapping.alpha=1.5",
    "fusedmax": "mapping=fusedmax",
    "oscarmax": "mapping=oscarmax",
    "oscarmax-paper": "mapping=oscarmax mapping.variant=paper",
    "sq-pnorm-max": "mapping=sq_pnorm_max",
}
"""Unbounded mappings, but for FISTA; see :data:`READING`."""
LOSSES = {
    "cross-entropy": "loss=cross_entropy",
    "sparsemax-loss": "loss=sparsemax",
    "entmax-1.5-loss": "loss=entmax loss.alpha=1.5",
    "entmax-1.25-loss": "loss=entmax loss.alpha=1.25",
    "entmax-3-loss": "loss=entmax loss.alpha=3",
    "sort-loss": "loss=entmax loss.alpha=2 loss.solver=sort",
    "bisection-loss": "loss=entmax loss.alpha=1.5 loss.solver=bisection",
}
BOUNDED = {
    "csoftmax-constant": "mapping=csoftmax model.fertility.strategy=constant",
    "csparsemax-guided": "mapping=csparsemax model.fertility.strategy=guided",
    "csparsemax-predicted": "mapping=csparsemax model.fertility.strategy=predicted "
    "model.fertility.training_bounds=expected",
    "csoftmax-aligned": "mapping=csoftmax model.fertility.strategy=predicted "
    "model.fertility.training_bounds=aligned",
    "csparsemax-actual": "mapping=csparsemax mapping.detach_exhaustion=false "
    "model.fertility.strategy=actual",
}
STRUCTURED = (
    "structured_perceptron", "structured_svm", "crf", "margin_crf", "sparsemap", "margin_sparsemap",
)  # fmt: skip
_TRANSLATOR = "model.embedding_size=6 model.hidden_size=8 model.layers=2 model.dropout=0.25"
_TAGGER = "model.fertility.epochs=1 model.fertility.embedding_size=4 model.fertility.hidden_size=4"
_CLASSIFIER = "model.vectors=random model.vector_size=6 model.hidden_size=8 data.train_premises=40"
_SIZES = {
    "morphology": _TRANSLATOR,
    "nmt": f"{_TRANSLATOR} {_TAGGER}",
    "summarization": f"{_TRANSLATOR} {_TAGGER}",
    "snli": _CLASSIFIER,
    "nli_alignment": _CLASSIFIER,
    "parsing": "model.word_size=6 model.tag_size=4 model.lstm_size=8 model.arc_size=8",
}


def _choices(task: str) -> Iterator[tuple[str, str]]:
    """Yield names and settings: every mapping and every loss occurs, not every pair of them."""
    if task == "parsing":
        yield from ((loss, f"loss={loss}") for loss in STRUCTURED)
        return
    for (name, mapping), (loss_name, loss) in zip(
        MAPPINGS.items(), cycle(LOSSES.items()), strict=False
    ):
        yield f"{name}-{loss_name}", f"{mapping} {loss}"
    if task in ("nmt", "summarization"):
        yield from BOUNDED.items()
        yield "coverage", "model.coverage_vector=true model.coverage_of=memory"
        yield "mlp", "model.attention=mlp model.coverage_vector=true model.bidirectional=false"
    if task == "nli_alignment":
        yield from (
            (f"alignment-{one}", f"model.alignment={one}") for one in ("sequential", "matching")
        )


def _overrides(task: str, choice: str) -> list[str]:
    return [f"task={task}", "training.batch_size=4", *_SIZES[task].split(), *choice.split()]


UPDATES = {
    f"{task}-{name}": _overrides(task, choice) for task in _SIZES for name, choice in _choices(task)
}
"""Overrides by task and name."""
READING = {
    f"{task}-fista": _overrides(task, "mapping=sq_pnorm_max mapping.solver=fista")
    for task in _SIZES
    if task != "parsing"
}
"""Updates that read values on any device: FISTA stops by its residual."""
