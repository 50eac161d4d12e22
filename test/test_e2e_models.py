"""Whole models through torch.compile: one graph, nothing in torch, results as eager's."""

import copy

import pytest
import torch
import transformers
from torch import nn

from tpu_inductor import explain

TINY = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
IDS = torch.arange(2 * 16).reshape(2, 16) % 97 + 3


def _llama():
    config = transformers.LlamaConfig(
        **TINY, num_key_value_heads=2, intermediate_size=128, vocab_size=128, use_cache=False
    )
    return transformers.LlamaForCausalLM(config), {"input_ids": IDS}


def _gpt2():
    config = transformers.GPT2Config(
        n_embd=64, n_layer=2, n_head=4, vocab_size=128, n_positions=32, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS}


def _bert():
    config = transformers.BertConfig(**TINY, intermediate_size=128, vocab_size=128)
    mask = (torch.arange(16) < torch.tensor([[16], [9]])).long()
    model = transformers.BertForSequenceClassification(config)
    return model, {"input_ids": IDS, "attention_mask": mask}


def _vit():
    config = transformers.ViTConfig(**TINY, intermediate_size=128, image_size=32, patch_size=8)
    return transformers.ViTForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 32, 32)
    }


MODELS = {"llama": _llama, "gpt2": _gpt2, "bert": _bert, "vit": _vit}


def work() -> dict[str, int]:
    return dict(torch._dynamo.utils.counters["tpu_tile"])


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_is_one_program_without_eager_calls(name):
    model, kwargs = MODELS[name]()
    model.eval()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(model, backend="tpu_tile", fullgraph=True)
    with torch.no_grad():
        want, got = model(**kwargs).logits, compiled(**kwargs).logits
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert work()["programs"] == 1
    assert work()["eager_ops"] == 0
    assert work()["kernels"] >= 10


def test_layers_share_their_kernels():
    """Twice the layers add calls of kernels, but no kernel."""
    sources = []
    for layers in (2, 4):
        torch._dynamo.reset()
        config = transformers.LlamaConfig(
            **TINY | {"num_hidden_layers": layers},
            intermediate_size=128,
            vocab_size=128,
            use_cache=False,
        )
        model = transformers.LlamaForCausalLM(config).eval()
        explanation = explain(model, input_ids=IDS)
        sources.append(explanation.programs[0].source)
    two, four = (s.count("pl.pallas_call(") for s in sources)
    assert two == four


def test_training_steps_follow_eager():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, backend="tpu_tile")
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (model, twin)]
    x, y = torch.randn(10, 16), torch.randint(0, 8, (10,))
    for _ in range(3):
        for run, optimizer in zip((model, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(run(x), y).backward()
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_sizes_that_change_are_one_or_two_graphs():
    graphs = []

    def counted(gm, args):
        graphs.append(gm)
        return torch._dynamo.lookup_backend("tpu_tile")(gm, args)

    def f(x):
        return torch.softmax(x * 2, -1) + x.sum(0)

    compiled = torch.compile(f, backend=counted)
    for shape in ((33, 65), (65, 33), (12, 12), (5, 130)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), f(x), rtol=1e-5, atol=1e-5)
    assert len(graphs) <= 2
