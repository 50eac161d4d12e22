"""Symbols of dynamic shapes: which a graph must be given numbers for, and where they come from.

A symbol in the shape, stride or offset of a tensor, or in an argument that an operator does not
compute with (a dimension, an index, a probability), is a *size*: compilation is special to its
value. Other symbols are numbers that may change at run time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

Sizes = Mapping[sympy.Symbol, int]
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def expr_of(value: Any) -> sympy.Expr:
    """The expression behind a SymInt, SymFloat or SymBool; numbers stand for themselves."""
    return value.node.expr if isinstance(value, SYMBOLIC) else sympy.sympify(value)


def free_symbols(value: Any) -> set[sympy.Symbol]:
    """The symbols in `value`, which for numbers are none."""
    symbols: Any = expr_of(value).free_symbols if isinstance(value, SYMBOLIC) else set()
    return symbols


def is_sized(value: Any, sizes: Sizes) -> bool:
    """Whether `value` is a number, or one that follows from `sizes`."""
    return free_symbols(value) <= sizes.keys()


def evaluate(value: Any, sizes: Sizes) -> Any:
    """`value` as a Python number, given numbers for all of its symbols."""
    if not isinstance(value, SYMBOLIC):
        return value
    number: Any = expr_of(value).xreplace(dict(sizes))
    if isinstance(value, torch.SymBool):
        return bool(number)
    return int(number) if isinstance(value, torch.SymInt) else float(number)


def static_shape(tensor: torch.Tensor, sizes: Sizes) -> tuple[int, ...]:
    return tuple(evaluate(n, sizes) for n in tensor.shape)


def static_strides(tensor: torch.Tensor, sizes: Sizes) -> tuple[int, ...]:
    return tuple(evaluate(n, sizes) for n in tensor.stride())


def shape_symbols(gm: GraphModule) -> list[sympy.Symbol]:
    """The symbols that must have numbers before `gm` can be imported, by name."""
    found: set[sympy.Symbol] = set()
    for node in gm.graph.nodes:
        for value in (*_extents(node), *_compile_time_arguments(node)):
            if isinstance(value, SYMBOLIC):
                found |= free_symbols(value)
    return sorted(found, key=str)


def bind_sizes(gm: GraphModule, args: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """Numbers for the shape symbols of `gm`, read off the arguments of one call."""
    return size_sources(gm).bind(args)


@dataclass(frozen=True, slots=True)
class SizeSources:
    """Where the sizes of a graph stand in its arguments, found once and read at each call.

    `plain` maps a symbol to (argument, dimension), or (argument, None) for a number itself;
    `compound` are expressions of which the remaining symbols are solved for.
    """

    symbols: tuple[sympy.Symbol, ...]
    plain: tuple[tuple[sympy.Symbol, int, int | None], ...]
    compound: tuple[tuple[sympy.Expr, int, int | None], ...]

    def bind(self, args: Sequence[Any]) -> dict[sympy.Symbol, int]:
        sizes = {symbol: _read(args, i, dim) for symbol, i, dim in self.plain}
        if len(sizes) < len(self.symbols):
            for expr, i, dim in self.compound:
                _solve(expr, _read(args, i, dim), sizes)
        return sizes


def size_sources(gm: GraphModule) -> SizeSources:
    """Where the arguments of `gm` tell the numbers of its shape symbols."""
    wanted = shape_symbols(gm)
    plain: dict[sympy.Symbol, tuple[int, int | None]] = {}
    compound: list[tuple[sympy.Expr, int, int | None]] = []
    for expr, i, dim in _argument_extents(gm):
        if isinstance(expr, sympy.Symbol) and expr in wanted:
            plain.setdefault(expr, (i, dim))
        elif expr.free_symbols:
            compound.append((expr, i, dim))
    found = tuple((symbol, *place) for symbol, place in plain.items())
    return SizeSources(tuple(wanted), found, tuple(compound))


def _read(args: Sequence[Any], i: int, dim: int | None) -> int:
    return args[i] if dim is None else args[i].shape[dim]


def _solve(expr: sympy.Expr, number: int, sizes: dict[sympy.Symbol, int]) -> None:
    """Binds the one symbol of `expr == number` that is still unknown, if there is just one."""
    known: Any = expr.xreplace(sizes)
    if len(known.free_symbols) == 1:
        (symbol,) = known.free_symbols
        answers = sympy.solve(known - number, symbol)
        if len(answers) == 1:
            sizes[symbol] = int(answers[0])


def _argument_extents(gm: GraphModule) -> Iterator[tuple[sympy.Expr, int, int | None]]:
    for i, node in enumerate(gm.graph.find_nodes(op="placeholder", sort=True)):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat):
            yield expr_of(value), i, None
        elif isinstance(value, torch.Tensor):
            for dim, extent in enumerate(value.shape):
                yield expr_of(extent), i, dim


def _extents(node: Node) -> Iterator[Any]:
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            yield from value.shape
            if value.layout is torch.strided and not value.is_nested:
                yield from (*value.stride(), value.storage_offset())


def _compile_time_arguments(node: Node) -> Iterator[Any]:
    """Symbolic arguments that a lowering needs as numbers: all that it cannot compute with."""
    if not isinstance(node.target, OpOverload):
        return
    for i, argument in enumerate(node.target._schema.arguments):
        value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if takes_runtime_number(node.target, argument.type):
            continue
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, Node) and isinstance(leaf.meta.get("val"), SYMBOLIC):
                yield leaf.meta["val"]


_CREATES_FROM_NUMBER = frozenset(
    {torch.ops.aten.full, torch.ops.aten.full_like, torch.ops.aten.scalar_tensor}
)


def takes_runtime_number(op: OpOverload, argument_type: object) -> bool:
    """Whether `op` computes with an argument of this schema type, so that it may be a value."""
    if str(argument_type) == "Tensor":
        return True
    computes = torch.Tag.pointwise in op.tags or op.overloadpacket in _CREATES_FROM_NUMBER
    return computes and str(argument_type) in ("number", "Optional[number]")
