"""Sentence summarization (Niculae & Blondel, 2017, §4.3)."""

from repro.tasks.protocol import TaskSpec
from repro.tasks.summarization.corpus import check, identify
from repro.tasks.summarization.task import build
from repro.tasks.text_pairs import SEARCH_SETTINGS

SPEC = TaskSpec(identify=identify, build=build, check=check, unread_in_training=SEARCH_SETTINGS)
