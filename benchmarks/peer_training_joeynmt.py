"""Updates of JoeyNMT's recurrent model on random data, in an interpreter that has JoeyNMT.

A script that :mod:`benchmarks.peer_training` starts and that imports nothing of this project. It
prints the versions and, for each line that it reads, the CPU time of one update in seconds.
"""

import json
import logging
import sys
import time
from importlib.metadata import version
from types import SimpleNamespace

import torch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary


def main(sizes: SimpleNamespace) -> None:
    """Answer each line of standard input with the CPU time of one update."""
    logging.disable()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = _model(sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    print(f"joeynmt {version('joeynmt')}, torch {version('torch')}", flush=True)
    for _ in sys.stdin:
        batch = _batch(sizes)
        start = time.process_time()
        _update(model, optimizer, batch)
        print(time.process_time() - start, flush=True)


def _model(sizes: SimpleNamespace) -> torch.nn.Module:
    specials = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    vocabulary = Vocabulary([str(word) for word in range(sizes.vocabulary - 4)], specials)
    shared = {
        "type": "recurrent", "rnn_type": "lstm",
        "num_layers": sizes.layers, "dropout": sizes.dropout,
        "embeddings": {"embedding_dim": sizes.embedding_size, "dropout": sizes.dropout},
    }  # fmt: skip
    encoder = {**shared, "hidden_size": sizes.hidden_size // 2, "bidirectional": True}
    decoder = {
        **shared, "hidden_size": sizes.hidden_size, "hidden_dropout": sizes.dropout,
        "attention": "luong", "input_feeding": True, "init_hidden": "last",
    }  # fmt: skip
    initial = {"initializer": "uniform", "init_weight": 0.1}
    model = build_model({**initial, "encoder": encoder, "decoder": decoder}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    return model.train()


def _batch(sizes: SimpleNamespace) -> dict[str, torch.Tensor]:
    rows = sizes.batch
    source = torch.randint(4, sizes.vocabulary, (rows, sizes.source))
    target = torch.randint(4, sizes.vocabulary, (rows, sizes.target))
    begin = torch.full((rows, 1), 2)
    return {
        "src": source,
        "src_length": torch.full((rows,), sizes.source),
        "src_mask": torch.ones(rows, 1, sizes.source, dtype=torch.bool),
        "trg_input": torch.cat([begin, target[:, :-1]], dim=1),
        "trg": target,
        "trg_mask": torch.ones(rows, 1, sizes.target, dtype=torch.bool),
    }


def _update(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]
) -> None:
    loss, *_ = model(return_type="loss", **batch)
    optimizer.zero_grad()
    (loss / len(batch["trg"])).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()


if __name__ == "__main__":
    main(SimpleNamespace(**json.loads(sys.argv[1])))
