"""The graph's inputs: from the placeholders of an FX graph to variables and a convention."""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch.fx import GraphModule, Node

from tpu_inductor.front.eager import tensor_type
from tpu_inductor.front.layout import dense_permutation, identity, invert
from tpu_inductor.front.numbers import number_type
from tpu_inductor.front.symbols import SYMBOLIC, Sizes, evaluate, is_sized, static_strides
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.origin import Origin
from tpu_inductor.graph.signature import ScalarInput, StaticInput, TensorInput
from tpu_inductor.graph.types import TensorType

Input = TensorInput | ScalarInput | StaticInput


def bind_inputs(
    b: Builder, gm: GraphModule, sizes: Sizes, env: MutableMapping[Node, Any]
) -> tuple[Input, ...]:
    """Binds each placeholder in `env` to its logical value, a number or None."""
    placeholders = gm.graph.find_nodes(op="placeholder", sort=True)
    inputs = tuple(_declare(b, node, sizes) for node in placeholders)
    for node, given in zip(placeholders, inputs, strict=True):
        env[node] = _logical_value(b, node, given, sizes)
    return inputs


def _declare(b: Builder, node: Node, sizes: Sizes) -> Input:
    value = node.meta.get("val")
    if is_token(node):
        return StaticInput()
    if isinstance(value, torch.Tensor):
        return _declare_tensor(b, node, value, sizes)
    if isinstance(value, SYMBOLIC) and not is_sized(value, sizes):
        return ScalarInput(b.input(node.name, TensorType((), number_type(value))))
    return StaticInput()


def _declare_tensor(b: Builder, node: Node, value: torch.Tensor, sizes: Sizes) -> TensorInput:
    logical = tensor_type(value, sizes)
    assert isinstance(logical, TensorType)  # check_whole_graph has looked at it
    shape, strides = logical.dims, static_strides(value, sizes)
    dense = dense_permutation(shape, strides)
    perm = identity(len(shape)) if dense is None else dense
    var = b.input(node.name, logical.with_shape(tuple(shape[d] for d in perm)))
    return TensorInput(var, shape, strides, perm, copy=dense is None)


def _logical_value(b: Builder, node: Node, given: Input, sizes: Sizes) -> Any:
    if isinstance(given, StaticInput):
        return None if is_token(node) else evaluate(node.meta.get("val"), sizes)
    if isinstance(given, ScalarInput):
        return given.var
    origin = Origin("placeholder", node.name)
    return _restore(replace(b, origin=origin, hint=node.name), given)


def is_token(node: Node) -> bool:
    """Whether a placeholder is an effect token: typed as a tensor, and passed as None."""
    users = node.users
    return bool(users) and all(u.target is with_effects and u.args[0] is node for u in users)


def _restore(b: Builder, given: TensorInput) -> Value:
    return b.transpose(given.var, invert(given.perm))
