"""Reasons to leave a whole graph to torch, found before anything is imported."""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from tpu_inductor.errors import Reject
from tpu_inductor.front.eager import tensor_type
from tpu_inductor.front.layout import dense_permutation, identity
from tpu_inductor.front.origins import op_name, origin_of
from tpu_inductor.front.symbols import (
    SYMBOLIC,
    Sizes,
    evaluate,
    is_sized,
    static_shape,
    static_strides,
)
from tpu_inductor.lowerings import LOWERINGS

_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)
_NUMBERS = (*SYMBOLIC, int, float)
_READS_STORAGE = frozenset(
    {torch.ops.aten.as_strided, torch.ops.aten.as_strided_copy, torch.ops.aten.as_strided_scatter}
)


def check_whole_graph(gm: GraphModule, sizes: Sizes) -> Reject | None:
    """Why `gm` cannot be a graph of dense tensors at all, or None."""
    for node in gm.graph.nodes:
        problem = _check_values(gm, node, sizes) or _check_call(node, sizes)
        if problem is not None:
            return Reject(f"{problem} — {origin_of(node).place}")
    return _check_devices(gm)


def _check_devices(gm: GraphModule) -> Reject | None:
    """One device for all tensors; 0-d CPU tensors may join tensors of any device, as in torch."""
    devices: dict[torch.device, str] = {}
    for node in gm.graph.nodes:
        for value in _tensors(gm, node):
            if value.ndim or value.device.type != "cpu":
                devices.setdefault(value.device, node.name)
    if len(devices) > 1:
        places = ", ".join(f"{name} is on {device}" for device, name in devices.items())
        return Reject(f"the graph spans devices: {places}")
    return None


def _check_values(gm: GraphModule, node: Node, sizes: Sizes) -> str | None:
    for value in _tensors(gm, node):
        if type(value) not in _PLAIN_CLASSES:
            return f"{node.name} is a {type(value).__name__}"
        type_ = tensor_type(value, sizes)
        if isinstance(type_, str):
            return f"{node.name} is {type_}"
    return None


def _tensors(gm: GraphModule, node: Node) -> Iterator[torch.Tensor]:
    value = node.meta.get("val")
    if node.op == "get_attr":
        value = operator.attrgetter(str(node.target))(gm)
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf


def _check_call(node: Node, sizes: Sizes) -> str | None:
    target = node.target
    if node.op in ("call_method", "call_module"):
        return f"the graph calls {node.op.removeprefix('call_')} {target}"
    if node.op != "call_function":
        return None
    if not isinstance(target, OpOverload):
        return _check_python_call(node)
    if target is torch.ops.aten._assert_scalar.default:
        return None if _holds(node.args[0], sizes) else f"{op_name(target)} checks data"
    if target._schema.is_mutable:
        return f"{op_name(target)} writes to its argument"
    if target.overloadpacket in _READS_STORAGE and not _is_own_storage(node.args[0], sizes):
        return f"{op_name(target)} reads the storage behind a view"
    return _check_results(node)


def _check_python_call(node: Node) -> str | None:
    value = node.meta.get("val")
    is_hop = isinstance(node.target, torch._ops.HigherOrderOperator)
    if is_hop or node.target is operator.getitem or isinstance(value, _NUMBERS):
        return None
    return f"the graph calls {op_name(node.target)}"


def _check_results(node: Node) -> str | None:
    """Operators outside the graph's algebra: no result at all, or a number made from data."""
    value = node.meta.get("val")
    if isinstance(value, (*_NUMBERS, torch.Tensor, tuple, list)) or node.target in LOWERINGS:
        return None
    return f"{op_name(node.target)} gives no tensor"


def _holds(condition: Any, sizes: Sizes) -> bool:
    """Whether an assertion is known to hold at compile time."""
    if isinstance(condition, Node):
        value = condition.meta.get("val")
        return is_sized(value, sizes) and bool(evaluate(value, sizes))
    return bool(condition)


def _is_own_storage(argument: Any, sizes: Sizes) -> bool:
    """Whether a tensor is all of its storage in row-major order, as graph values are."""
    value = argument.meta["val"]
    shape, strides = static_shape(value, sizes), static_strides(value, sizes)
    whole = dense_permutation(shape, strides) == identity(len(shape))
    return whole and evaluate(value.storage_offset(), sizes) == 0
