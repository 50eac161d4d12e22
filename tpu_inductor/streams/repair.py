"""Repairs: what is done to a kept result when the tags that it was computed with change.

Where nothing has been seen yet, a running maximum is -inf, and x - (-inf) is no shift that could be
repaired. So the body reads a *guarded* tag, which is finite there; the repair compares guarded
tags, so that it is right whatever stands in for the infinity. After the last block the same repair
leads from the guarded tag to the tag itself: it is 1 but for rows that have seen nothing, which end
as they do when the region is evaluated whole (NaN for a softmax).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.streams.action import (
    Apply,
    Change,
    Delta,
    Scale,
    Shift,
    Still,
    Tag,
    constant_of,
    tags_of,
)
from tpu_inductor.streams.axis import NotStreamable
from tpu_inductor.streams.close import align_to_dot
from tpu_inductor.streams.delta import LARGEST, DeltaWriter
from tpu_inductor.streams.rewrite import Rewriter


@dataclass(frozen=True, slots=True)
class Repair:
    """`kind` is "scale" (multiply what is kept) or "shift" (add to it).

    `graph` takes the old values of `tags`, then their new ones, and gives the factor or the
    difference in the shape of what is kept.
    """

    kind: str
    tags: tuple[Var, ...]
    graph: Graph

    def __str__(self) -> str:
        return f"{self.kind} by {self.graph}"


EXTREMES = ("reduce_max", "reduce_min")


@dataclass(frozen=True, slots=True)
class Moves:
    """How the operands of a closing equation move: by a shift, or by scales of either operand.

    `tags` says how each is read: by its difference ("sub") or ratio ("div"), and whether it scales
    an extreme, which starts at an infinity, of which 0 times would be NaN ("extreme").
    """

    eqn: Eqn
    kind: str
    deltas: tuple[tuple[int, Delta], ...]

    @property
    def tags(self) -> dict[Var, set[str]]:
        found: dict[Var, set[str]] = {}
        for _, delta in self.deltas:
            for tag, how in tags_of(delta).items():
                found.setdefault(tag, set()).update(how)
                if self.kind == "scale" and self.eqn.prim in EXTREMES:
                    found[tag].add("extreme")
        return found


def find_moves(rw: Rewriter, eqn: Eqn) -> Moves | None:
    """How what `eqn` closes moves with its tags; None if not at all. Raises NotStreamable.

    Sums and contractions take a scale; maxima and minima a shift, or a positive scale.
    """
    actions, found = rw.actions, list[tuple[int, Scale | Shift]]()
    for slot, value in enumerate(eqn.inputs):
        action = actions.of(value)
        if isinstance(action, Tag):
            scale = actions.scale(action)
            assert isinstance(scale, Scale)
            action = scale
        if not isinstance(action, Still):
            found.append((slot, action))
    if not found:
        return None
    for _, action in found:
        _check_legal(eqn, action)
    kind = "shift" if isinstance(found[0][1], Shift) else "scale"
    return Moves(eqn, kind, tuple((slot, action.delta) for slot, action in found))


def _check_legal(eqn: Eqn, action: Scale | Shift) -> None:
    is_extreme = eqn.prim in EXTREMES
    if isinstance(action, Shift):
        legal, how = is_extreme, "shifts with a running reduction"
    else:
        legal = eqn.prim in ("reduce_sum", "dot") or (is_extreme and action.positive)
        how = "scales with a running reduction"
        how += "" if action.positive else " that may be negative" if is_extreme else ""
    if not legal:
        raise NotStreamable(
            f"not streamable: {eqn.prim} of a value that {how} - {eqn.origin.place}"
        )


def write_repair(rw: Rewriter, moves: Moves, guarded: Mapping[Var, Var]) -> Repair:
    """The repair of what is kept, between blocks."""
    tags = tuple(guarded.get(tag, tag) for tag in moves.tags)
    b = Builder()
    old = [b.input(f"old_{tag.name}", tag.type) for tag in tags]
    new = [b.input(f"new_{tag.name}", tag.type) for tag in tags]
    scratch = Rewriter(rw.use, b)
    ends = (dict(zip(moves.tags, values, strict=True)) for values in (old, new))
    is_small = all(_is_at_most_one(rw, delta) for _, delta in moves.deltas)
    change = write_change(scratch, moves, *ends, bounded=not is_small)
    assert change is not None
    dtype = moves.eqn.out.type.dtype
    change = b.broadcast_to(b.convert(change, dtype), moves.eqn.out.type.shape)
    return Repair(moves.kind, tags, b.finish(f"repair_{moves.eqn.out.name}", [change]))


def write_change(
    rw: Rewriter,
    moves: Moves,
    old: Mapping[Var, Value],
    new: Mapping[Var, Value],
    bounded: bool = False,
) -> Value | None:
    """The factor or difference from old tags to new ones, in the result's shape.

    What was kept of nothing is 0, and 0 times an overflow would be NaN: a `bounded` factor is
    finite.
    """
    eqn, total = moves.eqn, None
    dtype = DType.F64 if any(t.type.dtype is DType.F64 for t in moves.tags) else DType.F32
    writer = DeltaWriter(rw, eqn, dtype, old, new)
    bounded = bounded and moves.kind == "scale"
    for slot, delta in moves.deltas:
        change = writer.write(delta)
        if change is None:
            continue
        if bounded:
            change = rw.row_op(eqn, "min", change, Lit(LARGEST[dtype], dtype))
        if isinstance(eqn.attrs, A.Dot):
            change = align_to_dot(rw, eqn, eqn.attrs, change, slot)
        elif isinstance(eqn.attrs, A.Dims):
            kept = [n for d, n in enumerate(change.type.shape) if d not in eqn.attrs.dims]
            change = rw.row_op(eqn, "reshape", change, attrs=A.Reshape(tuple(kept)))
        if total is not None:
            total = rw.row_op(eqn, "mul", total, change)
            change = rw.row_op(eqn, "min", total, Lit(LARGEST[dtype], dtype)) if bounded else total
        total = change
    return total


# -- guards -----------------------------------------------------------------------------
def write_guard(rw: Rewriter, tag: Var, how: set[str]) -> Var | None:
    """The tag with a finite stand-in for what has seen nothing; None if it is finite anyway."""
    eqn, dtype = rw.makers[tag], tag.type.dtype
    infinity = Lit(math.inf, dtype)
    if "div" in how:
        unfit = rw.row_op(eqn, "eq", rw.row_op(eqn, "abs", tag), infinity)
        unfit = rw.row_op(eqn, "or", unfit, rw.row_op(eqn, "eq", tag, Lit(0.0, dtype)))
        return _stand_in(rw, eqn, unfit, 1.0, tag)
    start = _value_at_start(rw, tag)
    if start is not None and math.isfinite(start):
        return None
    if start in (-math.inf, math.inf) and dtype in LARGEST and "extreme" not in how:
        # What has seen something compares with it as with the infinity.
        prim, number = ("max", -LARGEST[dtype]) if start < 0 else ("min", LARGEST[dtype])
        out = rw.row_op(eqn, prim, tag, Lit(number, dtype))
        assert isinstance(out, Var)
        return out
    if start is None:
        unfit = rw.row_op(eqn, "eq", rw.row_op(eqn, "abs", tag), infinity)
    else:
        unfit = rw.row_op(eqn, "eq", tag, Lit(start, dtype))
    return _stand_in(rw, eqn, unfit, 0.0, tag)


def _is_at_most_one(rw: Rewriter, delta: Delta) -> bool:
    """Whether a factor is e to the old value less the new one of a tag that only grows."""
    if not isinstance(delta, Apply):
        return False
    if PRIMS[delta.prim].kind is Kind.VIEW:
        return _is_at_most_one(rw, delta.args[0])
    inner = delta.args[0]
    while isinstance(inner, Apply) and PRIMS[inner.prim].kind is Kind.VIEW:
        inner = inner.args[0]
    if delta.prim != "exp" or not isinstance(inner, Apply) or inner.prim != "neg":
        return False
    change = inner.args[0]
    return isinstance(change, Change) and change.how == "sub" and _only_grows(rw, change.tag)


def _only_grows(rw: Rewriter, value: Value) -> bool:
    """Whether a value is a running maximum, seen through what keeps an order."""
    eqn = None if isinstance(value, Lit) else rw.makers.get(value)
    if eqn is None:
        return isinstance(value, Lit)
    if value in rw.closings:
        return eqn.prim == "reduce_max"
    keeps = eqn.prim in ("max", "min") or PRIMS[eqn.prim].kind is Kind.VIEW
    return keeps and all(_only_grows(rw, v) for v in eqn.inputs)


def _stand_in(rw: Rewriter, eqn: Eqn, unfit: Value, number: float, tag: Var) -> Var:
    out = rw.row_op(eqn, "select", unfit, Lit(number, tag.type.dtype), tag)
    assert isinstance(out, Var)
    return out


def _value_at_start(rw: Rewriter, value: Value) -> float | None:
    """What a tag is where the extremes have seen nothing, if that is known."""
    constant = constant_of(rw.makers, value)
    if constant is not None or isinstance(value, Lit):
        return constant
    eqn = rw.makers.get(value)
    if eqn is None:
        return None
    if value in rw.closings:
        return {"reduce_max": -math.inf, "reduce_min": math.inf}.get(eqn.prim)
    given = [_value_at_start(rw, v) for v in eqn.inputs]
    if eqn.prim == "select":
        condition, yes, no = given
        return None if condition is None else yes if condition else no
    if None in given or eqn.prim not in _ON_NUMBERS:
        return None
    return float(_ON_NUMBERS[eqn.prim](*given))


_ON_NUMBERS: dict[str, Callable[..., float]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "not": lambda x: not x,
    "abs": lambda x: abs(x),
    "neg": lambda x: -x,
    "max": lambda x, y: max(x, y),
    "min": lambda x, y: min(x, y),
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "convert": lambda x: x,
    "broadcast": lambda x: x,
    "reshape": lambda x: x,
    "transpose": lambda x: x,
}
