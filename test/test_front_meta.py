"""Models of meta tensors become the same graphs as models of CPU tensors, forward and backward."""

import copy
import functools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import tpu_inductor
from tpu_inductor.errors import Unsupported

Q, K, V = (torch.randn(2, 4, 5, 8) for _ in range(3))
SHARED = [torch.randn(2, 2, 5, 8) for _ in range(2)]
SEEN = torch.ones(5, 5, dtype=torch.bool).tril()

CALLS = {
    "plain": ((Q, K, V), {}),
    "causal": ((Q, K, V), {"is_causal": True}),
    "shared heads": ((Q, *SHARED), {"enable_gqa": True}),
    "boolean mask": ((Q, K, V, SEEN), {}),
    "additive mask": ((Q, K, V, torch.randn(2, 1, 5, 5)), {}),
    "bfloat16": ((Q.bfloat16(), K.bfloat16(), V.bfloat16(), SEEN), {}),
    "rows apart": ((Q.mT.contiguous().mT, K, V), {}),
    "three dimensions": ((Q[0], K[0], V[0]), {}),
    "no keys": ((Q, K[:, :, :0], V[:, :, :0]), {}),
}

FUSED = {"plain", "causal", "shared heads", "boolean mask", "additive mask", "bfloat16"}


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
        assert found[0].count(" = dot(") == 2
        assert " = eager(" not in found[0]


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


class Loss(torch.nn.Module):
    """Makes a tensor where its argument is."""

    def forward(self, x):
        rows = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
        return F.cross_entropy(x, rows, label_smoothing=0.1)


class Checkpointed(torch.nn.Module):
    def forward(self, q):
        attend = functools.partial(F.scaled_dot_product_attention, is_causal=True)
        return checkpoint(attend, q, q, q, use_reentrant=False)


class Deviation(torch.nn.Module):
    def forward(self, x):
        return x.std(1)


LAYERS = {
    "encoder": (torch.nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), (2, 5, 16)),
    "heads": (torch.nn.MultiheadAttention(16, 4, batch_first=True), (2, 5, 16)),
    "loss": (Loss(), (4, 3)),
    "deviation": (Deviation(), (4, 5)),
    "slope": (torch.nn.PReLU(), (2, 3)),
    "norm": (torch.nn.RMSNorm(4), (2, 4)),
    "batch norm": (torch.nn.BatchNorm1d(4), (2, 4)),
    "checkpoint": (Checkpointed(), (2, 4, 5, 8)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_the_meta_device_lower_as_those_of_the_cpu_do(name, grad):
    layer, shape = LAYERS[name]
    args = [torch.randn(shape)] * (3 if name == "heads" else 1)
    with torch.set_grad_enabled(grad):
        layer = copy.deepcopy(layer).train(grad)
        found = graphs(layer, args, grad)
        assert found == graphs(layer.to("meta"), on_meta(args), grad)
    assert len(found) == 1 + grad
    assert not any(" = eager(" in graph for graph in found)


def test_sizes_that_change_are_those_of_the_meta_tensors():
    def twice(x, y):
        y = y * 2
        torch._dynamo.graph_break()
        return x + y, x.shape[0]

    explained = tpu_inductor.explain(torch.compile(twice, dynamic=True), *on_meta([Q[0, 0, 0], V]))
    assert len(explained.graphs) == 2


def test_arguments_that_share_memory_still_do():
    x = torch.randn(4, 6)

    def add(x, y):
        x.add_(1)
        return y * 2

    found = graphs(add, [x, x[0]], grad=False)
    x = x.to("meta")
    assert found == graphs(add, [x, x[0]], grad=False)


def test_a_size_that_data_decides_is_refused():
    def pick(x):
        return x[x > 0]

    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(Unsupported, match="use tensors on the CPU"),
    ):
        tpu_inductor.explain(pick, torch.randn(4, device="meta"))
