"""The workloads of the comparison with XLA: torch and what is written by hand do the same."""

import inspect

import jax
import pytest
import torch
from by_hand import matmuls, models, rows
from spellings import by_hand_source, hand_job
from torch._subclasses.fake_tensor import FakeTensorMode
from workloads import WORKLOADS

from tpu_inductor.aot.compile import struct_of
from tpu_inductor.runtime.load import load_program

# Their heads have a fixed size, so they cannot be made small.
LARGE = {"qkv_fused", "qkv_separate", "llama_block"}

DISTINCT = {w.by_hand: name for name, w in WORKLOADS.items() if name not in LARGE}

every_workload = pytest.mark.parametrize("name", WORKLOADS)


def flat(results):
    """The results in one order: torch puts a gradient before the loss, JAX after it."""
    results = results if isinstance(results, tuple | list) else [results]
    return sorted(results, key=lambda r: len(r.shape))


@every_workload
def test_both_have_results_of_the_same_shapes(name):
    workload = WORKLOADS[name]
    with FakeTensorMode(), torch.no_grad():
        ours = workload.function(*[spec.empty() for spec in workload.specs])
    request = hand_job(workload, "v5e").request
    program = load_program(request.name, request.source)
    theirs = jax.eval_shape(program, *map(struct_of, request.arguments))
    assert [tuple(r.shape) for r in flat(ours)] == [r.shape for r in flat(theirs)]


@pytest.mark.parametrize("name", DISTINCT.values())
def test_both_have_the_same_numbers(name):
    workload = WORKLOADS[name]
    args = [sample(spec) for spec in workload.specs]
    ours = workload.function(*args)
    theirs = workload.by_hand(*[jax.dlpack.from_dlpack(arg) for arg in narrow(args)])
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        b = torch.from_dlpack(b)
        torch.testing.assert_close(a.float(), b.float(), rtol=2e-2, atol=2e-2)


def sample(spec):
    """A tensor of a 32nd of the extents."""
    shape = [max(1, extent // 32) for extent in spec.shape]
    if spec.dtype is torch.int64:
        return torch.randint(0, 1000, shape)
    if spec.dtype in (torch.int8, torch.bool):
        return torch.randint(0, 2, shape, dtype=torch.int32).to(spec.dtype)
    return torch.rand(shape).to(spec.dtype)


def narrow(args):
    return [arg.int() if arg.dtype is torch.int64 else arg for arg in args]


def test_workers_can_import_what_is_written_by_hand():
    for workload in WORKLOADS.values():
        source = by_hand_source(workload.by_hand)
        assert source.count(f"from {workload.by_hand.__module__} import") == 1
        assert callable(load_program(workload.name, source))
    for module in (rows, matmuls, models):
        assert "torch" not in inspect.getsource(module).replace("torch's", "")
