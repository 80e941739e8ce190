"""Machine translation (Malaviya et al., 2018; Peters et al., 2019; Niculae & Blondel, 2017)."""

from repro.tasks.nmt.corpus import check, identify
from repro.tasks.nmt.task import build
from repro.tasks.protocol import TaskSpec
from repro.tasks.text_pairs import SEARCH_SETTINGS

SPEC = TaskSpec(
    identify=identify,
    build=build,
    check=check,
    unread_in_training=SEARCH_SETTINGS | {"task.tuned_metric"},
)
