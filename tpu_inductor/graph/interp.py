"""The oracle: runs a graph in eager torch on the CPU, one equation at a time.

It says what every primitive means, and is what compiled programs are compared with.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.attrs import EagerCall, Hole
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.interp_contract import CONTRACTIONS
from tpu_inductor.graph.interp_pointwise import POINTWISE, Meaning
from tpu_inductor.graph.interp_tensor import MOVEMENT, REDUCTIONS
from tpu_inductor.graph.interp_unsigned import (
    UINT64_BY_NUMPY,
    decode_results,
    encode_operands,
    run_uint64,
)
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import TensorType

MEANING: dict[str, Meaning] = {**POINTWISE, **MOVEMENT, **REDUCTIONS, **CONTRACTIONS}
"""`fn(attrs, *tensors) -> Tensor | tuple[Tensor, ...]` of every primitive, in torch."""


def run(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of `graph` for CPU tensors of its input types.

    Raises InvalidIR where a value does not have the type that the graph gives it.
    """
    if len(inputs) != len(graph.inputs):
        raise InvalidIR(f"{graph.name} takes {len(graph.inputs)} inputs, got {len(inputs)}")
    env: dict[Var, Tensor] = {}
    for var, tensor in zip(graph.inputs, inputs, strict=True):
        env[var] = _checked(tensor, var.type, f"input {var.name}")
    for eqn in graph.eqns:
        results = run_eqn(eqn, [_read(env, v) for v in eqn.inputs])
        env.update(zip(eqn.outputs, results, strict=True))
    return [_read(env, v) for v in graph.outputs]


def run_eqn(eqn: Eqn, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of one equation, checked against its output types.

    Those of an eager call are checked when they are read: torch leaves out some that nobody reads,
    or predicts another size for them (the workspace of a recurrent layer).
    """
    if isinstance(eqn.attrs, EagerCall):
        results = call_eager(eqn.attrs, operands)
        missing = len(eqn.outputs) - len(results)
        return results + (torch.empty(0),) * missing
    if eqn.prim in UINT64_BY_NUMPY and operands[0].dtype is torch.uint64:
        results = (run_uint64(eqn.prim, *operands),)
    else:
        encoded = encode_operands(eqn.prim, operands)
        result = MEANING[eqn.prim](eqn.attrs, *encoded)
        results = result if isinstance(result, tuple) else (result,)
        results = decode_results(eqn, operands, results)
    if len(results) != len(eqn.outputs):
        raise InvalidIR(f"{eqn} has {len(results)} results")
    return tuple(_checked(r, v.type, str(eqn)) for r, v in zip(results, eqn.outputs, strict=True))


def call_eager(call: EagerCall, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors that `call` returns, in order; other results (None, numbers) are dropped."""

    def fill(leaf: object) -> object:
        return operands[leaf.index] if isinstance(leaf, Hole) else leaf

    args, kwargs = pytree.tree_map(fill, (call.args, dict(call.kwargs)))
    result = call.target(*args, **kwargs)  # type: ignore[operator]
    return tuple(r for r in pytree.tree_leaves(result) if isinstance(r, Tensor))


def _read(env: dict[Var, Tensor], value: Value) -> Tensor:
    if isinstance(value, Lit):
        return torch.tensor(value.value, dtype=TORCH_DTYPE[value.dtype])
    return _checked(env[value], value.type, value.name)


def _checked(tensor: Tensor, type: TensorType, where: str) -> Tensor:
    dtype = TORCH_DTYPE[type.dtype]
    if tuple(tensor.shape) != type.dims or tensor.dtype != dtype:
        raise InvalidIR(f"{where}: {type} is {tensor.dtype}{list(tensor.shape)}")
    return tensor
