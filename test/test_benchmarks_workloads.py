"""The workloads of the comparison with XLA: torch and what is written by hand do the same."""

import inspect

import jax
import pytest
import torch
from by_hand import matmuls, models, rows
from by_hand.matmuls import HEAD
from jax.experimental.pallas import tpu as pltpu
from spellings import by_hand_source, hand_job
from torch._subclasses.fake_tensor import FakeTensorMode
from workloads import WORKLOADS, Spec

from tpu_inductor.aot.compile import struct_of
from tpu_inductor.runtime.load import load_program

BF16 = torch.bfloat16
SQUARE, NORM, TURN = Spec((256, 256)), Spec((256,)), Spec((64, HEAD))
SMALL = {
    "qkv_fused": (Spec((2, 16, 64)), Spec((3 * 256, 64)), Spec((3 * 256,))),
    "qkv_separate": (Spec((2, 16, 64)), Spec((256, 64)), Spec((128, 64)), Spec((128, 64))),
    "llama_block": (
        Spec((1, 64, 256)),
        *(TURN, TURN, NORM, *(SQUARE,) * 4, NORM),
        *(Spec((128, 256)), Spec((128, 256)), Spec((256, 128))),
    ),
}
"""Of workloads whose heads have a width of their own. Those of others are a 32nd of theirs."""

DISTINCT = {f: name for name, w in WORKLOADS.items() for f in w.by_hand}

every_workload = pytest.mark.parametrize("name", WORKLOADS)
every_function = pytest.mark.parametrize("function", DISTINCT, ids=lambda f: f.__name__)


def flat(results):
    """The results in one order: torch puts a gradient before the loss, JAX after it."""
    results = results if isinstance(results, tuple | list) else [results]
    return sorted(results, key=lambda r: len(r.shape))


@every_workload
def test_both_have_results_of_the_same_shapes(name):
    workload = WORKLOADS[name]
    with FakeTensorMode(), torch.no_grad():
        ours = workload.function(*[spec.empty() for spec in workload.specs])
    for function in workload.by_hand:
        request = hand_job(workload, function, "v5e").request
        program = load_program(request.name, request.source)
        with jax.enable_x64(request.has_64_bit):
            theirs = jax.eval_shape(program, *map(struct_of, request.arguments))
        assert [tuple(r.shape) for r in flat(ours)] == [r.shape for r in flat(theirs)]


@every_function
def test_both_have_the_same_numbers(function):
    torch.manual_seed(0)
    workload = WORKLOADS[DISTINCT[function]]
    args = [sample(spec) for spec in small_specs(workload)]
    # Second moments have roots.
    args = [arg.abs() for arg in args] if function is models.adamw else args
    ours = workload.function(*args)
    with pltpu.force_tpu_interpret_mode():
        theirs = function(*[jax.dlpack.from_dlpack(arg) for arg in narrow(args)])
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        b = torch.from_dlpack(b)
        # Rounding to bfloat16 on the way is an error of the largest values, not of each.
        near = 2e-2 * max(1.0, a.abs().max().item())
        torch.testing.assert_close(a.float(), b.float(), rtol=2e-2, atol=near)


def test_large_logits_are_no_trouble_for_a_single_pass():
    x = torch.randn(4, 512, generator=torch.Generator().manual_seed(0)) * 1e4
    for function in (rows.softmax_single_pass, rows.log_softmax_single_pass):
        workload = WORKLOADS[DISTINCT[function]]
        found = torch.from_dlpack(function(jax.dlpack.from_dlpack(x)))
        torch.testing.assert_close(found, workload.function(x))


def small_specs(workload):
    if workload.name in SMALL:
        return SMALL[workload.name]
    specs = workload.specs
    return [Spec(tuple(max(1, n // 32) for n in s.shape), s.dtype) for s in specs]


def sample(spec):
    """A tensor on both sides of 0, of rows that are not all alike."""
    if spec.dtype is torch.int64:
        return torch.randint(0, 1000, spec.shape) % 32
    if spec.dtype in (torch.int8, torch.bool):
        return torch.randint(0, 2, spec.shape, dtype=torch.int32).to(spec.dtype)
    scale = spec.shape[-1] ** -0.5 if len(spec.shape) == 2 and spec.dtype is BF16 else 1.0
    return (torch.randn(spec.shape) * scale).to(spec.dtype)


def narrow(args):
    return [arg.int() if arg.dtype is torch.int64 else arg for arg in args]


def test_workers_can_import_what_is_written_by_hand():
    for workload in WORKLOADS.values():
        for function in workload.by_hand:
            source = by_hand_source(function)
            assert source.count(f"from {function.__module__} import") == 1
            assert callable(load_program(workload.name, source))
    for module in (rows, matmuls, models):
        assert "torch" not in inspect.getsource(module).replace("torch's", "")
