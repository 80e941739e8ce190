"""Multilingual inflection, CoNLL–SIGMORPHON 2018 task 1 (Peters et al., 2019, §4.1)."""

from repro.tasks.morphology.task import MorphologyTask, evaluate_ensemble, identify
from repro.tasks.protocol import TaskSpec

SPEC = TaskSpec(
    identify=identify,
    build=MorphologyTask,
    evaluate_ensemble=evaluate_ensemble,
    restore=MorphologyTask,
)
