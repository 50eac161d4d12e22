"""The graph's results: from the output node of an FX graph to values and a convention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from tpu_inductor.errors import Reject
from tpu_inductor.front.layout import dense_permutation, identity, invert
from tpu_inductor.front.symbols import SYMBOLIC, Sizes, evaluate, static_shape, static_strides
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.signature import ConstantOutput, ScalarOutput, TensorOutput

Output = TensorOutput | ConstantOutput | ScalarOutput


@dataclass(frozen=True, slots=True)
class Outputs:
    """The convention, result by result, and the graph values among them in order."""

    convention: tuple[Output, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        return tuple(o.value for o in self.convention if not isinstance(o, ConstantOutput))


def bind_outputs(
    b: Builder, gm: GraphModule, sizes: Sizes, env: Mapping[Node, Any]
) -> Outputs | Reject:
    """The results of `gm` in the strides that torch gives them, where those are dense."""
    (node,) = gm.graph.find_nodes(op="output")
    results: list[Output] = []
    returned: Any = node.args[0]
    for item in returned if isinstance(returned, tuple | list) else (returned,):
        output = _bind_output(b, item, sizes, env)
        if isinstance(output, Reject):
            return output
        results.append(output)
    return Outputs(tuple(results))


def _bind_output(b: Builder, item: Any, sizes: Sizes, env: Mapping[Node, Any]) -> Output | Reject:
    value = env[item] if isinstance(item, Node) else item
    meta = item.meta.get("val") if isinstance(item, Node) else item
    if isinstance(meta, torch.Tensor) and isinstance(value, Var | Lit):
        return _bind_tensor(b, b.tensor(value), meta, sizes)
    if isinstance(value, Var | Lit):
        return ScalarOutput(b.tensor(value))
    if isinstance(value, SYMBOLIC):
        value = evaluate(value, sizes)
    if value is None or isinstance(value, bool | int | float):
        return ConstantOutput(value)
    return Reject(f"the graph returns a {type(value).__name__}")


def _bind_tensor(b: Builder, value: Var, meta: torch.Tensor, sizes: Sizes) -> TensorOutput:
    shape, strides = static_shape(meta, sizes), static_strides(meta, sizes)
    perm = dense_permutation(shape, strides) or identity(len(shape))
    return TensorOutput(b.transpose(value, perm), invert(perm))
