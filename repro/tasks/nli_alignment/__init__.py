"""Natural language inference with latent alignments (Niculae et al., 2018, §5.2)."""

from repro.tasks.pair_corpora import identify
from repro.tasks.protocol import TaskSpec, imported

_TASK = imported("repro.tasks.nli_alignment.task:NliAlignmentTask")
SPEC = TaskSpec(
    identify=identify, build=_TASK, check=imported("repro.tasks.entailment:check"), restore=_TASK
)
