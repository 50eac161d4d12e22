"""Calls that run in torch between two programs: their operands, and the shape of their results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from tpu_inductor.front.dtypes import from_torch_dtype
from tpu_inductor.front.layout import is_plain, layout_name
from tpu_inductor.front.memory import lay_out
from tpu_inductor.front.origins import op_name
from tpu_inductor.front.storage import layout_of
from tpu_inductor.front.symbols import SYMBOLIC, Sizes, static_shape
from tpu_inductor.graph.attrs import EagerCall, Hole
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.signature import Layout
from tpu_inductor.graph.types import TensorType


@dataclass(frozen=True, slots=True)
class NumberCall:
    """`op` called with the items of the 0-d tensors at the top-level places `numbers`."""

    op: Any
    numbers: frozenset[int | str]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat = [a.item() if i in self.numbers else a for i, a in enumerate(args)]
        named = {k: a.item() if k in self.numbers else a for k, a in kwargs.items()}
        return self.op(*flat, **named)

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True, slots=True)
class StridedCall:
    """`op` called with tensors that lie as in eager torch at top-level places.

    What programs hand over is row-major, which an operator that looks at memory would see.
    """

    op: Any
    layouts: tuple[tuple[int | str, Layout], ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        places: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
        for place, layout in self.layouts:
            tensor: torch.Tensor = places[place]
            if tensor.stride() != layout.strides:
                places[place] = lay_out(tensor, layout)
        named = {place: v for place, v in places.items() if isinstance(place, str)}
        return self.op(*(places[i] for i in range(len(args))), **named)

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True, slots=True)
class Operands:
    """The arguments of a call with holes, and the values that fill them."""

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    values: tuple[Value, ...]


def dig_holes(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operands:
    """Replaces every graph value among the arguments by a hole; equal values share one."""
    places: dict[Value, int] = {}

    def dig(leaf: Any) -> Any:
        if isinstance(leaf, Var | Lit):
            return Hole(places.setdefault(leaf, len(places)))
        return leaf

    holed = pytree.tree_map(dig, list(args)), pytree.tree_map(dig, dict(kwargs))
    return Operands(tuple(holed[0]), tuple(holed[1].items()), tuple(places))


def eager_call(node: Node, operands: Operands, reason: str, sizes: Sizes) -> EagerCall:
    """The attributes of the equation that runs `node` in torch."""
    target: Any = node.target
    layouts = tuple(_strided_places(node, sizes)) if _sees_strides(target) else ()
    if layouts:
        target = StridedCall(target, layouts)
    holed: dict[int | str, Any] = {**dict(enumerate(operands.args)), **dict(operands.kwargs)}
    # Of a size that is fixed by then, the number itself stands there.
    numbers = frozenset(p for p in _number_places(node) if isinstance(holed[p], Hole))
    if numbers:
        target = NumberCall(target, numbers)
    is_tuple = isinstance(node.meta.get("val"), tuple | list)
    return EagerCall(target, operands.args, operands.kwargs, reason, is_tuple)


def _sees_strides(target: Any) -> bool:
    """Whether more than the elements of its operands matters to a call that writes none of them."""
    if not isinstance(target, OpOverload) or target._schema.is_mutable:
        return False
    is_custom = target.namespace not in ("aten", "prims")
    return target is torch.ops.aten.resize.default or is_custom


def _strided_places(node: Node, sizes: Sizes) -> Iterator[tuple[int | str, Layout]]:
    """The tensors at top-level places that are not row-major in eager torch, and how they lie."""
    for place, arg in _places(node):
        value = arg.meta.get("val") if isinstance(arg, Node) else None
        if isinstance(value, torch.Tensor) and is_plain(value):
            layout = replace(layout_of(value, sizes), offset=0)
            if layout.strides != Layout.row_major(layout.dtype, layout.shape).strides:
                yield place, layout


def _places(node: Node) -> tuple[tuple[int | str, Any], ...]:
    """The top-level arguments of a call, by position or name."""
    return (*enumerate(node.args), *node.kwargs.items())


def _number_places(node: Node) -> frozenset[int | str]:
    """Where a symbolic number that is known only at run time stands among the arguments."""
    return frozenset(
        place
        for place, arg in _places(node)
        if isinstance(arg, Node) and isinstance(arg.meta.get("val"), SYMBOLIC)
    )


def tensor_type(tensor: torch.Tensor, sizes: Sizes) -> TensorType | str:
    """The IR type of `tensor`, or what about it the IR cannot express."""
    if not is_plain(tensor):
        return layout_name(tensor)
    dtype = from_torch_dtype(tensor.dtype)
    if dtype is None:
        return f"a tensor of {tensor.dtype}"
    return TensorType(static_shape(tensor, sizes), dtype)


def missing_lowering(node: Node) -> str:
    return f"{op_name(node.target)} has no lowering"
