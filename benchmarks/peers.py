"""JoeyNMT's recurrent model, a peer of ``python -m benchmarks.training``.

It has the sizes and the attention scores that settings give to the model of this package, but
softmax on both sides, and is trained on the same batches with the same optimizer. It needs the
packages ``joeynmt`` and ``sentencepiece``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor

from repro.config.schema import RunConfig
from repro.config.schema.seq2seq import Seq2SeqConfig
from repro.data.batching import Seq2SeqBatch
from repro.data.vocabulary import Vocabulary
from repro.errors import UserError
from repro.models.seq2seq.model import Seq2Seq
from repro.models.seq2seq.translator import shifted
from repro.tasks import Task


class _Symbols:
    """Vocabulary of JoeyNMT of a given size, with the numbers of this package."""

    pad_index, unk_index = Vocabulary.PAD, Vocabulary.UNK
    bos_index, eos_index, sep_index = Vocabulary.BOS, Vocabulary.EOS, None
    specials: tuple[str, ...] = ()
    lang_tags: tuple[str, ...] = ()

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


class JoeyNmt:
    """Trainable model of JoeyNMT with the data of a task.

    Args:
        task: a task whose batches are :class:`~repro.data.batching.Seq2SeqBatch`.
        config: settings of the task, with the sizes of the model.

    Raises:
        UserError: JoeyNMT is not installed, or the task has other batches or another model.
    """

    tally: Mapping[str, float] = MappingProxyType({})

    def __init__(self, task: Task[Any], config: RunConfig) -> None:
        try:
            from joeynmt.model import build_model
        except ImportError as error:
            raise UserError(f"joeynmt cannot be imported: {error}") from error
        sizes, own = getattr(config, "model", None), task.model
        if not isinstance(sizes, Seq2SeqConfig) or not isinstance(own, Seq2Seq):
            raise UserError("joeynmt: expected a task with model=seq2seq")
        units, ways = sizes.hidden_size, 1 + sizes.bidirectional
        shared = {
            "rnn_type": "lstm",
            "num_layers": sizes.layers,
            "dropout": sizes.dropout,
            "embeddings": {"embedding_dim": sizes.embedding_size, "dropout": sizes.dropout},
        }
        encoder = {"hidden_size": units // ways, "bidirectional": sizes.bidirectional}
        decoder = {
            "type": "recurrent",
            "hidden_size": units,
            "hidden_dropout": sizes.dropout,
            "attention": "bahdanau" if sizes.attention == "mlp" else "luong",
            "init_hidden": "last",
        }
        settings = {"encoder": shared | encoder, "decoder": shared | decoder}
        words = own.encoder.embedding.num_embeddings, own.embedding.num_embeddings
        self.model = build_model(settings, *map(_Symbols, words)).to(own.scores.weight.device)
        self.model.loss_function = ("crossentropy", 0.0)
        self.batches = task.batches

    def loss(self, batch: Seq2SeqBatch) -> tuple[Tensor, Tensor]:
        """Return the mean loss of the target symbols, and their number; see ``Trainable``."""
        # Its encoder packs the sentences, longest first, by lengths on the host.
        lengths, order = batch.source_lengths.cpu().sort(descending=True, stable=True)
        order = order.to(batch.source.device)
        source, target = batch.source[order], batch.target[order]
        real = target != Vocabulary.PAD
        total, *_ = self.model(
            return_type="loss",
            src=source,
            src_mask=batch.source_mask[order].unsqueeze(1),
            src_length=lengths,
            trg_input=shifted(target),
            trg=target,
            trg_mask=real.unsqueeze(1),
        )
        symbols = real.sum()
        return total / symbols, symbols
