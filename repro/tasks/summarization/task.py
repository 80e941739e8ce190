"""Training and evaluation of one summarization model."""

import torch

from repro.config.schema import RunConfig
from repro.tasks.summarization.corpus import summary_corpus
from repro.tasks.summarization.scoring import SummaryScorer
from repro.tasks.text_pairs import TextPairsTask, prepare_text


def build(config: RunConfig, device: torch.device) -> TextPairsTask:
    """Prepare the corpus and make an untrained model; the random state decides its weights."""
    return TextPairsTask(
        config, prepare_text(config, summary_corpus(config)), SummaryScorer, device
    )
