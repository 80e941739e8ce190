"""Natural language inference with attention to the premise (Niculae & Blondel, 2017, §4.1)."""

from repro.tasks.pair_corpora import identify
from repro.tasks.protocol import TaskSpec, imported

_TASK = imported("repro.tasks.snli.task:SnliTask")
SPEC = TaskSpec(
    identify=identify, build=_TASK, check=imported("repro.tasks.entailment:check"), restore=_TASK
)
