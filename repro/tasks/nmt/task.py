"""Training and evaluation of one translation model."""

from functools import partial

import torch

from repro.config.schema import RunConfig
from repro.tasks.nmt.corpus import parallel_corpus
from repro.tasks.nmt.scoring import TranslationScorer
from repro.tasks.text_pairs import TextPairsTask, prepare_text


def build(config: RunConfig, device: torch.device) -> TextPairsTask:
    """Prepare the corpus and make an untrained model; the random state decides its weights."""
    text = prepare_text(config, parallel_corpus(config))
    return TextPairsTask(config, text, partial(TranslationScorer, config), device)
