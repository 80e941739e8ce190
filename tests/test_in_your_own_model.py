"""The code of docs/in-your-own-model.md, unchanged: with α = 1 it is what it takes the place of."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from repro.mappings import Softmax

PAGE = Path(__file__).parents[1] / "docs" / "in-your-own-model.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(hugging_face: bool = False) -> dict[str, Any]:
    """Run the blocks in order, those that import transformers only on request."""
    torch.manual_seed(1)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if hugging_face or "transformers" not in block:
            exec(block, names)
    return names


def test_attention_with_a_mask():
    page = run()
    inputs, mask = [page[name] for name in ("query", "key", "value")], page["causal"]
    assert (page["output"].shape, page["weights"].shape) == ((2, 4, 5, 16), (2, 4, 5, 5))
    assert page["weights"][..., ~mask].count_nonzero() == 0
    assert (page["weights"][..., mask] == 0).any()
    dense = nn.functional.scaled_dot_product_attention(*inputs, attn_mask=mask)
    torch.testing.assert_close(page["sparse_attention"](*inputs, mask, alpha=1.0)[0], dense)
    assert page["sparse_attention"](*inputs, mask & False)[0].count_nonzero() == 0
    assert page["mapping"].logit.grad.count_nonzero() == 4


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("added", [True, False], ids=["added", "boolean"])
def test_the_module_is_multihead_attention_but_for_the_mapping(batch_first, added):
    dense = nn.MultiheadAttention(32, 4, batch_first=batch_first)
    sparse = run()["EntmaxAttention"](32, 4, batch_first=batch_first)
    assert sparse.load_state_dict(dense.state_dict(), strict=False).missing_keys == [
        "mapping.logit"
    ]
    query, key = torch.randn(2, 3, 32), torch.randn(2, 6, 32)
    padding, mask = torch.zeros(2, 6, dtype=torch.bool), torch.zeros(8, 3, 6, dtype=torch.bool)
    padding[1, 4:] = mask[5, 1, :3] = True
    if added:
        padding, mask = (torch.zeros(x.shape).masked_fill(x, -torch.inf) for x in (padding, mask))
    if not batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    masks = {"key_padding_mask": padding, "attn_mask": mask}
    assert sparse(query, key, key, **masks, average_attn_weights=False)[1].count_nonzero() < 135
    sparse.mapping = Softmax()
    torch.testing.assert_close(sparse(query, key, key, **masks), dense(query, key, key, **masks))
    assert sparse(query, key, key, need_weights=False)[1] is None


def test_a_layer_of_torch_keeps_the_mapping_when_it_is_evaluated():
    layer, words = run()["layer"].eval(), torch.randn(2, 5, 32)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        evaluated = layer(words, src_key_padding_mask=padding)
        attended = layer.self_attn(words, words, words, padding, need_weights=False)[0]
    hidden = layer.norm1(words + attended)
    expected = layer.norm2(hidden + layer.linear2(torch.relu(layer.linear1(hidden))))
    torch.testing.assert_close(evaluated, expected)


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "BertModel"])
def test_models_of_transformers(kind):
    page = run(hugging_face=True)
    model_class = getattr(transformers, kind)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 20}
    config = model_class.config_class(hidden_size=32, intermediate_size=16, **sizes)
    if kind == "LlamaForCausalLM":
        config.num_key_value_heads = 2
    model = model_class._from_config(config, attn_implementation="eager").eval()
    padding = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    words = {"input_ids": torch.randint(3, 20, (2, 5)), "attention_mask": padding}

    def computed() -> tuple[torch.Tensor, torch.Tensor]:
        found = model(**words, output_attentions=True)
        return found[0][padding.bool()], found.attentions[0]

    dense, weights = computed()
    used = weights[padding.bool()[:, None].expand(2, 4, 5)] > 0
    model.set_attn_implementation("entmax")
    sparse, weights = computed()
    assert not (weights[padding.bool()[:, None].expand(2, 4, 5)] > 0)[~used].any()
    assert not torch.allclose(dense, sparse, atol=1e-6)
    kinds = {"LlamaAttention", "BertSelfAttention"}
    attentions = [module for module in model.modules() if type(module).__name__ in kinds]
    for attention in attentions:
        attention.mapping = page["LearnedAlphaEntmax"](4)
    sparse, _ = computed()
    sparse.square().sum().backward()
    assert [one.mapping.logit.grad.isfinite().all() for one in attentions] == [True, True]
    for attention in attentions:
        attention.mapping = Softmax()
    torch.testing.assert_close(computed()[0], dense)
