"""Multilingual inflection, CoNLL–SIGMORPHON 2018 task 1 (Peters et al., 2019, §4.1)."""

from repro.tasks.morphology.corpus import identify
from repro.tasks.protocol import TaskSpec, imported

SPEC = TaskSpec(
    identify=identify,
    build=imported("repro.tasks.morphology.task:MorphologyTask"),
    evaluate_ensemble=imported("repro.tasks.morphology.task:evaluate_ensemble"),
    restore=imported("repro.tasks.morphology.task:MorphologyTask"),
)
