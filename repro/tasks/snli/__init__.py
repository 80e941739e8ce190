"""Natural language inference with attention to the premise (Niculae & Blondel, 2017, §4.1)."""

from repro.tasks.entailment_corpus import check, identify
from repro.tasks.protocol import TaskSpec
from repro.tasks.snli.task import SnliTask

SPEC = TaskSpec(identify=identify, build=SnliTask.build, check=check)
