"""Computes convolutions, and what lies between them, with the channels as the last dimension.

    y = conv(x, w); z = max(y, 0)
    --> x' = transpose(x; n, *spatial, c); y' = conv(x', w; channels_last); z' = max(y', 0)

XLA:CPU convolves in this order alone, and would transpose around every convolution. Here a value
stays turned through everything that does not care about the order, and is turned back where
something does: transpositions end up at both ends of a run, and cancel those of the caller.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.conv_methods import choose_method
from tpu_inductor.graph.core import Eqn, Graph, Value, Var
from tpu_inductor.graph.prims import PRIMS, REDUCE, Kind
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.types import Shape

Perm: TypeAlias = tuple[int, ...]


def move_channels_last(graph: Graph, *, may_use_torch: bool) -> Graph:
    """The same function of the same inputs, with the method of every convolution chosen."""
    if all(eqn.prim != "conv" for eqn in graph.eqns):
        return graph
    makers = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    mover = _Mover(Builder.after(graph), makers, may_use_torch)
    for eqn in graph.eqns:
        mover.add(eqn)
    for value in graph.outputs:
        mover.restore(value)
    return simplify(replace(graph, eqns=tuple(mover.builder.sink.eqns)))


def _last(rank: int, channels: int = 1) -> Perm:
    """The order (n, *spatial, *channels) of (n, *channels, *spatial)."""
    return (0, *range(channels + 1, rank), *range(1, channels + 1))


def _compose(first: Perm, second: Iterable[int]) -> Perm:
    """The one transposition that does what `first` and then `second` do."""
    return tuple(first[d] for d in second)


def _invert(perm: Perm) -> Perm:
    return tuple(perm.index(d) for d in range(len(perm)))


def _keeps_order(shape: Shape, perm: Perm) -> bool:
    """Whether the transposition moves extents of 1 alone."""
    moved = [d for d in perm if shape[d] != 1]
    return moved == sorted(moved)


@dataclass(slots=True)
class _Mover:
    """The growing graph. `turned[v]` says in which order `v` was computed, if not as written.

    `copies` holds the turned values that there are; `restored` are the values that exist as written
    although they were computed turned.
    """

    builder: Builder
    makers: Mapping[Var, Eqn]
    may_use_torch: bool
    turned: dict[Var, Perm] = field(default_factory=dict[Var, Perm])
    copies: dict[tuple[Var, Perm], Var] = field(default_factory=dict[tuple[Var, Perm], Var])
    restored: set[Var] = field(default_factory=set[Var])

    def add(self, eqn: Eqn) -> None:
        """Appends `eqn`, turned where an operand is and the primitive allows it."""
        perm = next((self.turned[v] for v in eqn.operands if v in self.turned), None)
        moved = None if perm is None else self._move(eqn, perm)
        if eqn.prim == "conv":
            self._add_conv(eqn)
        elif perm is None or moved is None:
            for value in eqn.operands:
                self.restore(value)
            self.builder.sink.eqns.append(eqn)
        else:
            inputs = tuple(self._turn_operand(v, perm) for v in eqn.inputs)
            self._append(eqn, inputs, *moved)

    def _move(self, eqn: Eqn, perm: Perm) -> "Moved":
        rule = _RULES.get(eqn.prim)
        return rule(eqn, perm) if rule else None

    def restore(self, value: Value) -> None:
        """Makes `value` exist as written."""
        if not isinstance(value, Var) or value not in self.turned or value in self.restored:
            return
        perm = self.turned[value]
        copy = self.copies[value, perm]
        if _keeps_order(value.type.shape, perm):
            prim, attrs = "reshape", A.Reshape(value.type.shape)
        else:
            prim, attrs = "transpose", A.Transpose(_invert(perm))
        origin = self.makers[value].origin
        self.builder.sink.eqns.append(Eqn(prim, (copy,), (value,), attrs, origin))
        self.restored.add(value)

    def _add_conv(self, eqn: Eqn) -> None:
        assert isinstance(eqn.attrs, A.Conv)
        x, w = eqn.operands if len(eqn.operands) == 2 else eqn.operands * 2
        self.restore(w)
        perm = _last(x.type.rank)
        turned = self.turn(x, perm)
        out = eqn.out.type.with_shape(_compose(eqn.out.type.dims, perm))
        attrs = choose_method(
            replace(eqn.attrs, channels_last=True), turned.type, w.type, out, self.may_use_torch
        )
        self._append(eqn, (turned, w), attrs, perm)

    def _append(self, eqn: Eqn, inputs: tuple[Value, ...], attrs: A.Attrs, perm: Perm) -> None:
        """Appends `eqn` over turned operands; its result is turned by `perm`."""
        if perm == tuple(range(len(perm))):
            turned = replace(eqn, inputs=inputs, attrs=attrs)
            self.builder.sink.eqns.append(turned)
            return
        b = self.builder.at(eqn.origin, eqn.out.name, ())
        self.turned[eqn.out] = perm
        self.copies[eqn.out, perm] = b.one(eqn.prim, *inputs, attrs=attrs)

    def _turn_operand(self, value: Value, perm: Perm) -> Value:
        """Numbers fit every order; all else has the rank of the equation."""
        if not isinstance(value, Var) or value.type.rank != len(perm):
            self.restore(value)
            return value
        return self.turn(value, perm)

    def turn(self, value: Var, perm: Perm) -> Var:
        """`value` transposed by `perm`: a copy, or made anew from what a broadcast repeats."""
        if (value, perm) not in self.copies:
            self.copies[value, perm] = self._copy(value, perm)
        return self.copies[value, perm]

    def _copy(self, value: Var, perm: Perm) -> Var:
        maker = self.makers.get(value)
        b = self.builder.at(maker.origin, value.name, ()) if maker else self.builder
        shape = _compose(value.type.dims, perm)
        if _keeps_order(value.type.shape, perm):
            self.restore(value)
            return b.reshape(value, shape)
        if value in self.turned:
            before = self.turned[value]
            return b.transpose(self.copies[value, before], [before.index(d) for d in perm])
        attrs = maker.attrs if maker else None
        if isinstance(attrs, A.Full):
            return b.full(shape, attrs.dtype, attrs.value)
        if isinstance(attrs, A.Iota):
            return b.iota(shape, attrs.dtype, perm.index(attrs.dim))
        if maker and isinstance(attrs, A.Broadcast) and isinstance(maker.inputs[0], Var):
            places = [perm.index(d) for d in attrs.dims]
            order = tuple(sorted(range(len(places)), key=places.__getitem__))
            source = self.turn(maker.inputs[0], order)
            return b.one("broadcast", source, attrs=A.Broadcast(shape, tuple(sorted(places))))
        return b.transpose(value, perm)


# -- equations in another order ------------------------------------------------------------------
Moved: TypeAlias = tuple[A.Attrs, Perm] | None
"""The attributes of a turned equation and the order of its result; None to leave it as written."""

Rule: TypeAlias = Callable[[Eqn, Perm], Moved]


def _pointwise(eqn: Eqn, perm: Perm) -> Moved:
    return eqn.attrs, perm


def _pad(eqn: Eqn, perm: Perm) -> Moved:
    assert isinstance(eqn.attrs, A.Pad)
    edges = eqn.attrs
    low, high, between = (_compose(e, perm) for e in (edges.low, edges.high, edges.interior))
    return A.Pad(low, high, between), perm


def _slice(eqn: Eqn, perm: Perm) -> Moved:
    assert isinstance(eqn.attrs, A.Slice)
    part = eqn.attrs
    start, limit, stride = (_compose(e, perm) for e in (part.start, part.limit, part.stride))
    return A.Slice(start, limit, stride), perm


def _axis(eqn: Eqn, perm: Perm) -> Moved:
    assert isinstance(eqn.attrs, A.Axis)
    return A.Axis(perm.index(eqn.attrs.dim)), perm


def _turned_dims(eqn: Eqn, perm: Perm) -> A.Dims:
    assert isinstance(eqn.attrs, A.Dims)
    return A.Dims(tuple(sorted(perm.index(d) for d in eqn.attrs.dims)))


def _rev(eqn: Eqn, perm: Perm) -> Moved:
    return _turned_dims(eqn, perm), perm


def _reduce(eqn: Eqn, perm: Perm) -> Moved:
    assert isinstance(eqn.attrs, A.Dims)
    kept = [d for d in range(len(perm)) if d not in eqn.attrs.dims]
    order = tuple(kept.index(d) for d in perm if d in kept)
    return _turned_dims(eqn, perm), order


def _broadcast(eqn: Eqn, perm: Perm) -> Moved:
    """One that stretches extents of 1 and adds no dimension."""
    assert isinstance(eqn.attrs, A.Broadcast)
    shape, rank = eqn.attrs.shape, len(perm)
    if len(shape) != rank:
        return None
    return A.Broadcast(_extents(shape, perm), tuple(range(rank))), perm


def _extents(shape: Shape, perm: Perm) -> Shape:
    return tuple(shape[d] for d in perm)


def _reshape(eqn: Eqn, perm: Perm) -> Moved:
    """One that splits or merges channels among themselves, and positions among themselves."""
    before, after = eqn.inputs[0].type.dims, eqn.out.type.dims
    channels = next((k for k in range(1, len(perm)) if perm == _last(len(perm), k)), None)
    if channels is None or len(after) < 3 or after[0] != before[0]:
        return None
    count = prod(before[1 : channels + 1])
    fits = [k for k in range(1, len(after) - 1) if prod(after[1 : k + 1]) == count]
    if not fits:
        return None
    order = _last(len(after), fits[0])
    return A.Reshape(_extents(after, order)), order


_RULES: dict[str, Rule] = {
    **{name: _pointwise for name, prim in PRIMS.items() if prim.kind is Kind.POINTWISE},
    **dict.fromkeys(REDUCE, _reduce),
    "pad": _pad,
    "slice": _slice,
    "concat": _axis,
    "rev": _rev,
    "broadcast": _broadcast,
    "reshape": _reshape,
}
