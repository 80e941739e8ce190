"""Non-projective dependency parsing, Universal Dependencies (Niculae et al., 2018, §5.1)."""

from repro.tasks.parsing.task import ParsingTask, identify
from repro.tasks.protocol import TaskSpec

SPEC = TaskSpec(identify=identify, build=ParsingTask, restore=ParsingTask)
