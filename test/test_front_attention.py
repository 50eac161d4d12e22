"""Attention of CPU and meta tensors becomes the same graph, forward and backward."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import tpu_inductor

Q, K, V = (torch.randn(2, 4, 5, 8) for _ in range(3))
SHARED = [torch.randn(2, 2, 5, 8) for _ in range(2)]
SEEN = torch.ones(5, 5, dtype=torch.bool).tril()

CALLS = {
    "plain": ((Q, K, V), {}),
    "causal": ((Q, K, V), {"is_causal": True}),
    "scaled": ((Q, K, V), {"scale": 0.3, "dropout_p": 0.0}),
    "shared heads": ((Q, *SHARED), {"enable_gqa": True}),
    "shared heads, causal": ((Q, *SHARED), {"enable_gqa": True, "is_causal": True}),
    "boolean mask": ((Q, K, V, SEEN), {}),
    "additive mask": ((Q, K, V, torch.randn(2, 1, 5, 5)), {}),
    "bfloat16": ((Q.bfloat16(), K.bfloat16(), V.bfloat16(), SEEN), {}),
    "float64": ((Q.double(), K.double(), V.double()), {}),
    "permuted": ((Q.transpose(1, 2).contiguous().transpose(1, 2), K, V), {}),
    "rows apart": ((Q.mT.contiguous().mT, K, V), {}),
    "three dimensions": ((Q[0], K[0], V[0]), {}),
    "three dimensions of mask": ((Q, K, V, SEEN[None]), {}),
    "other width of values": ((Q, K, V[..., :6].contiguous()), {}),
    "no keys": ((Q, K[:, :, :0], V[:, :, :0]), {}),
}

FUSED = {"plain", "causal", "shared heads", "boolean mask", "additive mask", "bfloat16", "permuted"}


def graphs(model, args, grad):
    leaves = [x.detach().requires_grad_(grad and i < 3) for i, x in enumerate(args)]
    explained = tpu_inductor.explain(model, *leaves, options={"target": "v6e"})
    return [text(graph) for graph in explained.graphs]


def text(graph):
    """The lowered graph without its name, which counts compilations."""
    return str(replace(graph.lowered.plan.graph, name="graph"))


def on_meta(args):
    return [x.to("meta") for x in args]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_meta_tensors_lower_as_cpu_tensors_do(name, grad):
    args, options = CALLS[name]

    def attend(*args):
        return F.scaled_dot_product_attention(*args, **options)

    found = graphs(attend, args, grad)
    assert found == graphs(attend, on_meta(args), grad)
    assert len(found) == 1 + grad
    if name in FUSED:
        assert " = attention(" in found[0]


def test_a_mask_that_needs_a_gradient_is_taken_apart_alike():
    mask = torch.randn(5, 5, requires_grad=True)

    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)

    args = [Q, K, V, mask]
    on_cpu = tpu_inductor.explain(attend, *args)
    there = tpu_inductor.explain(attend, *[x.detach().to("meta") for x in args[:3]], on_leaf(mask))
    assert text(on_cpu.graphs[0]) == text(there.graphs[0])


def on_leaf(x):
    return x.detach().to("meta").requires_grad_()


def test_attention_inside_a_layer_is_found():
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
    x = torch.randn(2, 5, 16)
    found = graphs(layer, [x], grad=True)
    assert found == graphs(layer.to("meta"), [x.to("meta")], grad=True)
    assert " = attention(" in found[0]
