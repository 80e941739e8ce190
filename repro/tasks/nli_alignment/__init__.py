"""Natural language inference with latent alignments (Niculae et al., 2018, §5.2)."""

from repro.tasks.entailment_corpus import check, identify
from repro.tasks.nli_alignment.task import NliAlignmentTask
from repro.tasks.protocol import TaskSpec

SPEC = TaskSpec(identify=identify, build=NliAlignmentTask.build, check=check)
