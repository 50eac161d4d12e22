"""Runs one lowering through the interpreter and compares it with the operator itself."""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from tpu_inductor.errors import Reject
from tpu_inductor.front.dtypes import from_torch_dtype
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.interp import run
from tpu_inductor.graph.types import TensorType
from tpu_inductor.lowerings import LOWERINGS

TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-5, 2e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}


def type_of(t: torch.Tensor) -> TensorType:
    dtype = from_torch_dtype(t.dtype)
    assert dtype is not None
    return TensorType(tuple(t.shape), dtype)


def lower(op: Any, *args: Any, **kwargs: Any) -> tuple[Graph, list[torch.Tensor]] | Reject:
    """The graph of one call, and the tensors among its arguments."""
    with FakeTensorMode() as mode:
        fakes = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        out = op(*fakes[0], **fakes[1])
    types = tuple(type_of(t) for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor))
    b = Builder(hint=op.__name__, out=types)
    tensors: list[torch.Tensor] = []

    def enter(t: torch.Tensor) -> Any:
        tensors.append(t)
        return b.input(f"arg{len(tensors)}", type_of(t))

    values = pytree.tree_map_only(torch.Tensor, enter, (args, kwargs))
    result = LOWERINGS[op](b, *values[0], **values[1])
    if isinstance(result, Reject):
        return result
    results = [r for r in (result if isinstance(result, tuple) else (result,)) if r is not None]
    assert tuple(r.type for r in results) == types
    return b.finish("case", [b.tensor(r) for r in results]), tensors


def check(op: Any, *args: Any, same_dtype: bool = True, **kwargs: Any) -> Graph:
    """Asserts that the lowering gives what `op` gives, and returns its graph.

    `same_dtype=False` is for operators whose traced result types are not their eager ones.
    """
    lowered = lower(op, *args, **kwargs)
    assert not isinstance(lowered, Reject), lowered.reason
    graph, tensors = lowered
    wanted = [t for t in pytree.tree_leaves(op(*args, **kwargs)) if isinstance(t, torch.Tensor)]
    for got, want in zip(run(graph, tensors), wanted, strict=True):
        want = want if same_dtype else want.to(got.dtype)
        rtol, atol = TOLERANCE.get(want.dtype, (0, 0)) if same_dtype else TOLERANCE[torch.bfloat16]
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
    return graph


def prims(graph: Graph) -> list[str]:
    return [eqn.prim for eqn in graph.eqns]
