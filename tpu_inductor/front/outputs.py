"""The graph's results: from the output node of an FX graph to values and a convention."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from tpu_inductor.errors import Reject
from tpu_inductor.front.layout import dense_permutation, identity, invert
from tpu_inductor.front.symbols import SYMBOLIC, Sizes, evaluate, static_shape, static_strides
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.signature import (
    ConstantOutput,
    SameAsResult,
    ScalarOutput,
    TensorOutput,
)

Output: TypeAlias = TensorOutput | SameAsResult | ConstantOutput | ScalarOutput


def bind_outputs(
    b: Builder, gm: GraphModule, sizes: Sizes, env: Mapping[Node, Any]
) -> tuple[Output, ...] | Reject:
    """The results of `gm`, in the strides that torch gives them where those are dense."""
    (node,) = gm.graph.find_nodes(op="output")
    returned: Any = node.args[0]
    items = returned if isinstance(returned, tuple | list) else (returned,)
    results: list[Output] = []
    for i, item in enumerate(items):
        first = next((j for j in range(i) if items[j] is item), None)
        output = _bind_output(b, item, sizes, env)
        if isinstance(output, Reject):
            return output
        if first is not None and isinstance(output, TensorOutput):
            output = SameAsResult(first)
        results.append(output)
    return tuple(results)


def output_values(outputs: tuple[Output, ...]) -> tuple[Value, ...]:
    """The graph values among the results, in order."""
    return tuple(o.value for o in outputs if isinstance(o, TensorOutput | ScalarOutput))


def _bind_output(b: Builder, item: Any, sizes: Sizes, env: Mapping[Node, Any]) -> Output | Reject:
    value = env[item] if isinstance(item, Node) else item
    meta = item.meta.get("val") if isinstance(item, Node) else item
    if isinstance(meta, torch.Tensor) and isinstance(value, Var | Lit):
        return _bind_tensor(b, item, b.tensor(value), meta, sizes)
    if isinstance(value, Var | Lit):
        return ScalarOutput(b.tensor(value))
    if isinstance(value, SYMBOLIC):
        value = evaluate(value, sizes)
    if value is None or isinstance(value, bool | int | float):
        return ConstantOutput(value)
    return Reject(f"the graph returns a {type(value).__name__}")


def _bind_tensor(
    b: Builder, item: Node, value: Var, meta: torch.Tensor, sizes: Sizes
) -> TensorOutput:
    shape, strides = static_shape(meta, sizes), static_strides(meta, sizes)
    perm = dense_permutation(shape, strides) or identity(len(shape))
    return TensorOutput(b.transpose(value, perm), invert(perm), _is_view_of_argument(item))


def _is_view_of_argument(node: Node) -> bool:
    """Whether torch would return memory of an argument: a placeholder seen through views alone."""
    while node.op == "call_function" and _is_view(node.target):
        source = node.args[0]
        assert isinstance(source, Node)  # views are of tensors
        node = source
    return node.op == "placeholder"


def _is_view(target: object) -> bool:
    if not isinstance(target, OpOverload) or len(target._schema.returns) != 1:
        return False
    alias = target._schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def with_values(outputs: tuple[Output, ...], values: tuple[Value, ...]) -> tuple[Output, ...]:
    """The same convention for a rewritten graph, whose outputs are `values` in the same order."""
    rest = iter(values)
    return tuple(
        replace(o, value=next(rest)) if isinstance(o, TensorOutput | ScalarOutput) else o
        for o in outputs
    )
