"""Attention in one kernel: in every spelling, at every size, forward and backward."""

from dataclasses import replace

import pytest
import torch
from attention_programs import PROGRAMS, Program, by_matmul, causal, qkv, sdpa, spellings
from gates import LOOSE, check_compiles, check_gates, compile_graph, execute, small_target
from stream_programs import trace
from torch import Tensor

from tpu_inductor.graph import interp
from tpu_inductor.graph.constants import copy_constants
from tpu_inductor.graph.narrow import narrow_integers
from tpu_inductor.schedule.nest import Fold, How, Loop, folds_of, walk
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TARGETS

OPTIONS = {"target": "v5e", "interpret": True, "prefer": "pallas"}


def compiled(function, options=None):
    torch._dynamo.reset()
    return torch.compile(function, backend="tpu_tile", options=options)


def wide(tensors):
    return tuple(x.double() if x.is_floating_point() else x for x in tensors)


def check_exact(got: Tensor, eager: Tensor, exact: Tensor, slack: float = 1e-6) -> None:
    """`got` is at most twice as far from the exact result as eager's."""
    assert torch.equal(got.isnan(), exact.isnan())
    ours, theirs = ((x.double() - exact).nan_to_num().abs().max() for x in (got, eager))
    assert ours <= 2 * theirs + slack


def kernels() -> int:
    return torch._dynamo.utils.counters["tpu_tile"]["kernels"]


@pytest.mark.parametrize("options", [OPTIONS, None], ids=["v5e", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_one_kernel_and_as_exact_as_eager(name, options):
    p = PROGRAMS[name]
    torch._dynamo.utils.counters.clear()
    got = compiled(p.function, options)(*p.tensors)
    check_exact(got, p.function(*p.tensors), p.function(*wide(p.tensors)))
    counted = torch._dynamo.utils.counters["tpu_tile"]
    assert counted["kernels"] == 1
    assert not p.alone or not counted["xla_ops"]


def test_large_scores_are_as_exact_as_eager():
    q, k, v = qkv()
    q, k = q * 25, k * 4
    got, want = compiled(sdpa, OPTIONS)(q, k, v), sdpa(*wide((q, k, v)))
    check_exact(got, sdpa(q, k, v), want, slack=0)


def test_infinities_and_nan_end_as_in_eager():
    q, k, v = qkv()
    k[0, 0, 3], v[0, 1, 5] = float("nan"), float("inf")
    for function in (sdpa, by_matmul):
        got, want = compiled(function, OPTIONS)(q, k, v), function(q, k, v)
        torch.testing.assert_close(got, want, equal_nan=True)


# -- gradients ----------------------------------------------------------------------------
def gradients(function, tensors):
    leaves = [x.clone().requires_grad_() for x in tensors if x.is_floating_point()]
    out = function(*leaves, *(x for x in tensors if not x.is_floating_point()))
    torch.manual_seed(2)
    return torch.autograd.grad(out, leaves, torch.randn(out.shape).to(out.dtype))


@pytest.mark.parametrize("options", [OPTIONS, None], ids=["v5e", "cpu"])
@pytest.mark.parametrize("name", ["sdpa", "causal", "shared_heads", "causal_bf16", "length 127"])
def test_gradients_stream_along_keys_and_along_queries(name, options):
    p = PROGRAMS[name]
    torch._dynamo.utils.counters.clear()
    got = gradients(compiled(p.function, options), p.tensors)
    exact = gradients(p.function, wide(p.tensors))
    for ours, eager, want in zip(got, gradients(p.function, p.tensors), exact, strict=True):
        check_exact(ours, eager, want, slack=1e-5)
    # Forward; the rows' sums; dq; dk with dv.
    assert kernels() >= 4


@pytest.mark.parametrize("p", spellings(), ids=lambda p: p.name)
def test_gradients_of_every_spelling_agree(p: Program):
    got = gradients(compiled(p.function, OPTIONS), p.tensors)
    exact = gradients(p.function, wide(p.tensors))
    for ours, eager, want in zip(got, gradients(p.function, p.tensors), exact, strict=True):
        check_exact(ours, eager, want, slack=1e-5)


# -- the kernel ---------------------------------------------------------------------------
def schedule_of(function, tensors, chip=TARGETS["v5e"]) -> TileSchedule:
    graph = narrow_integers(trace(function, *tensors)[0])
    graph = replace(graph, eqns=copy_constants(graph.eqns, graph.inputs))
    return compile_graph(graph, chip).only


GATED = ["causal", "shared_heads", "with_sink", "windowed", "causal_bf16", "length 127"]


@pytest.mark.aot
@pytest.mark.parametrize("name", GATED)
def test_kernels_pass_the_gates(name):
    p = PROGRAMS[name]
    graph, _ = trace(p.function, *p.tensors)
    check_gates(graph, tolerance=LOOSE)


@pytest.mark.aot
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_generation_compiles(dtype):
    graph, _ = trace(causal, *qkv(queries=1024, keys=1024, width=64, dtype=dtype))
    check_compiles(graph, list(t for t in TARGETS.values() if t.is_tpu))


def loops_over(schedule: TileSchedule, axis: str) -> list[Loop]:
    return [
        n
        for n in walk(schedule.nest)
        if isinstance(n, Loop) and n.axis == axis and n.how is How.LOOP
    ]


def test_chunks_that_a_mask_hides_are_left_out_and_whole_ones_have_none():
    schedule = schedule_of(causal, qkv(queries=4096, keys=4096))
    whole, *_, cut = loops_over(schedule, "n")
    names = {n.eqn: schedule.eqns[n.eqn].prim for n in walk(whole.body) if hasattr(n, "eqn")}
    assert "iota" not in names.values()
    assert any(schedule.eqns[n.eqn].prim == "iota" for n in walk(cut.body) if hasattr(n, "eqn"))
    visited = sum(loop.span.mean for loop in loops_over(schedule, "n") if loop.span)
    assert visited < 0.65 * schedule.axis("n").turns


def test_a_window_is_visited_alone():
    def function(q, k, v):
        at = torch.arange(8192)
        seen = (at[:, None] >= at) & (at[:, None] - at < 1024)
        return torch.softmax((q @ k.mT).masked_fill(~seen, float("-inf")), -1) @ v

    schedule = schedule_of(function, qkv(heads=1, queries=8192, keys=8192, width=64))
    visited = sum(loop.span.mean for loop in loops_over(schedule, "n") if loop.span)
    assert visited * schedule.axis("n").extent < 2.1 * 1024


def test_keys_that_the_memory_cannot_hold_go_by_in_blocks():
    p = PROGRAMS["causal"]
    graph, inputs = trace(p.function, *qkv(queries=128, keys=4096))
    chip = small_target(6 << 20)
    compiled = compile_graph(graph, chip)
    (fold,) = folds_of(compiled.only.nest)
    assert isinstance(fold, Fold)
    assert fold.axes == ("n",)
    (got,) = execute(graph, compiled.program, inputs)
    torch.testing.assert_close(got, interp.run(graph, inputs)[0], rtol=1e-4, atol=1e-5)


def test_no_scores_lie_in_memory():
    schedule = schedule_of(causal, qkv(queries=4096, keys=4096))
    largest = max(c.shape[0] * c.shape[1] for c in schedule.carries)
    assert largest < 4096 * 4096 / 16
    assert schedule.vmem_bytes < 4096 * 4096


def test_a_small_product_of_products_is_no_stream():
    """What would be written is smaller than what is read."""

    def function(x: Tensor, w: Tensor, u: Tensor) -> Tensor:
        return torch.relu(x @ w) @ u

    graph, _ = trace(function, torch.randn(64, 128), torch.randn(128, 128), torch.randn(128, 128))
    compiled = compile_graph(graph, TARGETS["v5e"])
    assert all(s.template != "stream_products" for s in compiled.schedules)
