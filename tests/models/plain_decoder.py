"""Small models; attention and a decoder that computes step by step with plain autograd."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from repro.config.schema.seq2seq import TranslatorConfig
from repro.models.seq2seq.attention import Attention, AttentionState, FeedForwardAttention
from repro.models.seq2seq.model import Decoded, DecoderState, InputFeedingDecoder


def small(**settings: Any) -> TranslatorConfig:
    sizes = {"embedding_size": 6, "hidden_size": 10, "layers": 1, "dropout": 0.0, "init_range": 0.3}
    return TranslatorConfig(name="seq2seq", **(sizes | settings))


def attend(attention: Attention, query: Tensor, source: AttentionState) -> tuple[Tensor, Tensor]:
    """Context and weights of one step of ``attention``."""
    context, weights, _ = attention(query, source, attention.products(source, 1)[0])
    return context, weights


def plain_attend(
    attention: Attention, query: Tensor, source: AttentionState
) -> tuple[Tensor, Tensor, Tensor]:
    keys = source.memory @ attention.key.weight.T
    if isinstance(attention, FeedForwardAttention):
        hidden = keys + attention.query(query).unsqueeze(1)
        if attention.coverage is not None:
            hidden = hidden + attention.coverage(source.coverage.unsqueeze(-1))
        scores = attention.score(hidden.tanh()).squeeze(-1)
    else:
        scores = (keys @ query.unsqueeze(-1)).squeeze(-1)
        if attention.coverage is not None:
            of_memory = attention.coverage(source.memory).squeeze(-1)
            slopes = of_memory if attention.of_memory else attention.coverage(query)
            scores = scores + slopes * source.coverage
    scores = scores.masked_fill(source.penalty == -torch.inf, -torch.inf)
    weights = attention.weighting(scores, source)
    return (weights.unsqueeze(1) @ source.memory).squeeze(1), weights, scores


def plain_decode(
    decoder: InputFeedingDecoder, state: DecoderState, embedded: Tensor, masks: Tensor
) -> Decoded:
    """Compute the decoder's output step by step; ``masks``: ``(steps, layers, rows, units)``."""
    outputs, attention, attention_scores = [], [], []
    for symbol, mask in zip(embedded.unbind(1), masks, strict=True):
        below, hidden, cell = torch.cat([symbol, state.feed], dim=-1), [], []
        for layer, lstm in enumerate(decoder.cells):
            below = below if layer == 0 else below * mask[layer]
            below, memory = lstm(below, (state.hidden[layer], state.cell[layer]))
            hidden.append(below)
            cell.append(memory)
        context, weights, scores = plain_attend(decoder.attention, below, state.source)
        combined = F.linear(
            torch.cat([below, context], dim=-1), decoder.output.weight, decoder.output.bias
        )
        feed = torch.tanh(combined) * mask[0]
        state = DecoderState(tuple(hidden), tuple(cell), feed, state.source.after(weights))
        outputs.append(feed)
        attention.append(weights)
        attention_scores.append(scores)
    return Decoded(*(torch.stack(one, 1) for one in (outputs, attention, attention_scores)), state)
