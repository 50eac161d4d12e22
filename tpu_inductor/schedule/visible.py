"""Which columns of a block of rows a mask leaves to be seen: read from comparisons of positions.

    select(le(col, row), s, -inf)   -->   columns 0 to row are seen, by all rows from 0 to the first

A mask is true or false of intervals. Columns outside the one need not be visited, if what is hidden
adds nothing to what is kept; columns inside the other need no mask.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import ENDING, PRIMS, Kind
from tpu_inductor.regions.factors import Factoring
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.bound import FAR, Bound, Line, extreme
from tpu_inductor.schedule.placing import stored_axes


@dataclass(frozen=True, slots=True)
class Range:
    """Columns from `lo` up to `hi`, in elements."""

    lo: Bound
    hi: Bound


EVERY = Range(Line((), -FAR), Line((), FAR))
NONE = Range(Line((), FAR), Line((), -FAR))


@dataclass(frozen=True, slots=True)
class Visible:
    """What is seen of a block of rows.

    Outside of `some` all is hidden, and within `all` nothing. `taken` has the equations that hide,
    with the operand that is their result where nothing is hidden.
    """

    some: Range
    all: Range
    taken: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Position:
    """A whole number as a sum of positions: `factors` times those of axes, and an offset."""

    factors: Mapping[str, int]
    offset: int


def find_visible(
    eqns: Sequence[Eqn], factoring: Factoring, axes: Sequence[Axis], columns: Axis
) -> Visible | None:
    """What masks leave of `columns`, if anything is known of it.

    `axes` have their tiles; a block of rows is seen as a whole.
    """
    reader = _Reader(eqns, factoring, axes, columns, {v: e for e in eqns for v in e.outputs})
    some, every, taken = EVERY, EVERY, dict[int, int]()
    for index, eqn in enumerate(eqns):
        hides = _hiding(eqn, reader)
        if hides is None or not _adds_nothing(eqns, index):
            continue
        seen, whole = (
            reader.denied(hides.condition) if hides.denied else reader.ranges(hides.condition)
        )
        if (seen, whole) == (EVERY, NONE):
            continue
        some = _meet(some, seen)
        every = _meet(every, whole)
        taken[index] = hides.slot
    return Visible(some, every, taken) if taken else None


def _meet(one: Range, other: Range) -> Range:
    return Range(extreme("max", one.lo, other.lo), extreme("min", one.hi, other.hi))


def _join(one: Range, other: Range) -> Range:
    """The least range that has both."""
    return Range(extreme("min", one.lo, other.lo), extreme("max", one.hi, other.hi))


@dataclass(frozen=True, slots=True)
class _Hiding:
    """What shows operand `slot` where `condition` holds, or with `denied` does not, else -inf."""

    condition: Value
    slot: int
    denied: bool = False


def _hiding(eqn: Eqn, reader: "_Reader") -> _Hiding | None:
    """How an equation hides, if it does: by a select, or by adding a mask."""
    if eqn.prim == "select" and _is_hidden(eqn.inputs[2]):
        return _Hiding(eqn.inputs[0], 1)
    if eqn.prim == "select" and _is_hidden(eqn.inputs[1]):
        return _Hiding(eqn.inputs[0], 2, denied=True)
    if eqn.prim == "add":
        for slot, value in enumerate(eqn.inputs):
            maker = reader.behind(value)
            if maker is not None and maker.prim == "select":
                condition, one, other = maker.inputs
                if _is_shown(one) and _is_hidden(other):
                    return _Hiding(condition, 1 - slot)
                if _is_hidden(one) and _is_shown(other):
                    return _Hiding(condition, 1 - slot, denied=True)
    return None


def _is_shown(value: Value) -> bool:
    return isinstance(value, Lit) and value.value == 0


def _is_hidden(value: Value) -> bool:
    return isinstance(value, Lit) and value.value == -math.inf


def _adds_nothing(eqns: Sequence[Eqn], index: int) -> bool:
    """Whether -inf in place of what `index` makes adds nothing to any result that ends axes."""
    known: dict[Var, float] = {eqns[index].out: -math.inf}
    reached = False
    for eqn in eqns[index + 1 :]:
        given = [known.get(v) if isinstance(v, Var) else None for v in eqn.inputs]
        if all(g is None for g in given):
            continue
        if PRIMS[eqn.prim].kind in ENDING:
            identity = -math.inf if eqn.prim == "reduce_max" else 0.0
            if identity not in given or eqn.prim not in ("reduce_max", "reduce_sum", "dot"):
                return False
            reached = True
            continue
        found = _fold(eqn, given)
        if found is None:
            return False
        known[eqn.out] = found
    return reached


def _fold(eqn: Eqn, given: Sequence[float | None]) -> float | None:
    """What an equation gives of -inf and 0, whatever finite numbers its other operands are."""
    if PRIMS[eqn.prim].kind is Kind.VIEW or eqn.prim == "convert":
        return given[0]
    if eqn.prim in ("exp", "exp2") and given[0] == -math.inf:
        return 0.0
    if eqn.prim == "add" or (eqn.prim == "sub" and given[1] is None):
        return -math.inf if -math.inf in given else None
    if eqn.prim == "mul":
        return 0.0 if 0.0 in given else _scaled(eqn, given)
    if eqn.prim == "div" and given[1] is None:
        return 0.0 if given[0] == 0.0 else _scaled(eqn, given)
    if eqn.prim == "select" and given[0] is None and given[1] is not None:
        other = eqn.inputs[2]
        return given[1] if isinstance(other, Lit) and other.value == given[1] else None
    return None


def _scaled(eqn: Eqn, given: Sequence[float | None]) -> float | None:
    """-inf times a positive number."""
    numbers = [v.value for v in eqn.inputs if isinstance(v, Lit)]
    is_positive = len(numbers) == 1 and float(numbers[0]) > 0
    return -math.inf if is_positive and -math.inf in given else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads conditions on positions."""

    eqns: Sequence[Eqn]
    factoring: Factoring
    axes: Sequence[Axis]
    columns: Axis
    makers: Mapping[Var, Eqn]
    known: dict[Value, _Position | None] = field(default_factory=dict[Value, _Position | None])

    def behind(self, value: Value) -> Eqn | None:
        """What makes a value, seen through views."""
        eqn = self.makers.get(value) if isinstance(value, Var) else None
        while eqn is not None and PRIMS[eqn.prim].kind is Kind.VIEW:
            value = eqn.inputs[0]
            eqn = self.makers.get(value) if isinstance(value, Var) else None
        return eqn

    def ranges(self, condition: Value) -> tuple[Range, Range]:
        """The columns for which a condition may hold in a block of rows, and always holds."""
        eqn = self.behind(condition)
        if eqn is None:
            return EVERY, NONE
        if eqn.prim == "not":
            return self.denied(eqn.inputs[0])
        if eqn.prim in ("and", "or"):
            (a, b), (c, d) = map(self.ranges, eqn.inputs)
            if eqn.prim == "and":
                return _meet(a, c), _meet(b, d)
            return _join(a, c), d if b == NONE else b
        return self._compared(eqn, eqn.prim)

    def denied(self, condition: Value) -> tuple[Range, Range]:
        eqn = self.behind(condition)
        opposite = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
        if eqn is None or eqn.prim not in (*opposite, "not", "or"):
            return EVERY, NONE
        if eqn.prim == "not":
            return self.ranges(eqn.inputs[0])
        if eqn.prim == "or":
            (a, b), (c, d) = map(self.denied, eqn.inputs)
            return _meet(a, c), _meet(b, d)
        return self._compared(eqn, opposite[eqn.prim])

    def _compared(self, eqn: Eqn, prim: str) -> tuple[Range, Range]:
        """x < y as 0 <= y - x - 1, and so on."""
        if prim not in ("lt", "le", "gt", "ge"):
            return EVERY, NONE
        x, y = (self.position(v) for v in eqn.inputs)
        if x is None or y is None:
            return EVERY, NONE
        low, high = (x, y) if prim in ("lt", "le") else (y, x)
        gap = _combined(high, low, -1)
        offset = gap.offset - (prim in ("lt", "gt"))
        along = gap.factors.get(self.columns.name, 0)
        if along not in (1, -1):
            return EVERY, NONE
        others = {n: f for n, f in gap.factors.items() if n != self.columns.name}
        least, most = self._ends(others, offset)
        # The column itself is at least -(rest), or at most the rest.
        if along == 1:
            return (
                Range(_negated(most), Line((), FAR)),
                Range(_negated(least), Line((), FAR)),
            )
        return (
            Range(Line((), -FAR), _moved(most, 1)),
            Range(Line((), -FAR), _moved(least, 1)),
        )

    def _ends(self, factors: Mapping[str, int], offset: int) -> tuple[Line, Line]:
        """The least and the largest of a sum of positions in a block."""
        terms = tuple(sorted((n, f) for n, f in factors.items() if f))
        spread = {n: f * (self._axis(n).tile - 1) for n, f in terms}
        least = offset + sum(min(s, 0) for s in spread.values())
        most = offset + sum(max(s, 0) for s in spread.values())
        return Line(terms, least), Line(terms, most)

    def _axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    def position(self, value: Value) -> _Position | None:
        """A value as a sum of positions, if it is one."""
        if value not in self.known:
            self.known[value] = self._position(value)
        return self.known[value]

    def _position(self, value: Value) -> _Position | None:
        if isinstance(value, Lit):
            return _Position({}, int(value.value)) if value.dtype.is_int else None
        eqn = self.behind(value)
        if eqn is None or not eqn.out.type.dtype.is_int:
            return None
        if isinstance(eqn.attrs, A.Full):
            return _Position({}, int(cast(int, eqn.attrs.value)))
        if isinstance(eqn.attrs, A.Iota):
            return self._along(eqn, eqn.attrs.dim)
        if eqn.prim == "convert":
            return self.position(eqn.inputs[0])
        if eqn.prim in ("add", "sub"):
            x, y = map(self.position, eqn.inputs)
            sign = 1 if eqn.prim == "add" else -1
            return None if x is None or y is None else _combined(x, y, sign)
        return None

    def _along(self, eqn: Eqn, dim: int) -> _Position | None:
        along = stored_axes(self.factoring.values[eqn.out][dim], self.axes)
        if along is None:
            return None
        factors: dict[str, int] = {}
        stride = 1
        for axis in reversed(along):
            factors[axis.name] = stride
            stride *= axis.size
        return _Position(factors, 0)


def _combined(x: _Position, y: _Position, sign: int) -> _Position:
    names = {*x.factors, *y.factors}
    factors = {n: x.factors.get(n, 0) + sign * y.factors.get(n, 0) for n in names}
    return _Position(factors, x.offset + sign * y.offset)


def _negated(line: Line) -> Line:
    return Line(tuple((n, -f) for n, f in line.terms), -line.offset)


def _moved(line: Line, by: int) -> Line:
    return Line(line.terms, line.offset + by)
