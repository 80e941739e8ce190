"""Non-projective dependency parsing, Universal Dependencies (Niculae et al., 2018, §5.1)."""

from repro.tasks.parsing.corpus import identify
from repro.tasks.protocol import TaskSpec, imported

_TASK = imported("repro.tasks.parsing.task:ParsingTask")
SPEC = TaskSpec(identify=identify, build=_TASK, restore=_TASK)
