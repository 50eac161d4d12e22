"""The primitives: name, kind and type rule. Everything after import knows only these.

Pointwise operands have one shape; a 0-dimensional literal fits any. Types never promote:
lowerings insert `convert`. Integer arithmetic wraps. `max` and `min` spread NaN; `argmax` and
`argmin` name the first NaN, else the first extreme value. `div` is for floats, `idiv`
truncates and `rem` follows it (the sign of the dividend), for floats `rem` is C's fmod.
`check` tells how far from `start` the integers of its operand reach, at most, modulo 2**64; a
program returns that beside its results, and the runtime raises where it is not below `count`.
`round` is half to even. Shifts by an amount out of range give 0 (or the sign for `shift_right`).
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from tpu_inductor.graph import type_rules as T
from tpu_inductor.graph.types import TensorType


class Kind(enum.Enum):
    """What a primitive does to the iteration space."""

    POINTWISE = "pointwise"
    CREATE = "create"
    VIEW = "view"
    REDUCE = "reduce"
    DOT = "dot"
    OTHER = "other"
    EAGER = "eager"


ENDING = (Kind.REDUCE, Kind.DOT)
"""Primitives of these kinds end the axes that they go over."""

CHECK = "check"


@dataclass(frozen=True, slots=True)
class Prim:
    """A primitive. `type_rule(attrs, *operand_types)` gives the result types."""

    name: str
    kind: Kind
    type_rule: Callable[..., tuple[TensorType, ...]]


UNARY = [
    "neg",
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erf_inv",
    "lgamma",
    "digamma",
    "logistic",
    "not",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "idiv",
    "rem",
    "pow",
    "atan2",
    "max",
    "min",
    "and",
    "or",
    "xor",
    "shift_left",
    "shift_right",
    "nextafter",
]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]
REDUCE = ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"]
ARG_REDUCE = ["argmax", "argmin"]
CUMULATIVE = ["cumsum", "cumprod", "cummax", "cummin"]


def _rows() -> list[Prim]:
    pointwise, view, other = Kind.POINTWISE, Kind.VIEW, Kind.OTHER
    return [
        *(Prim(n, pointwise, T.same) for n in UNARY + BINARY),
        *(Prim(n, pointwise, T.comparison) for n in COMPARE),
        Prim("is_nan", pointwise, T.comparison),
        Prim("select", pointwise, T.select),
        Prim("convert", pointwise, T.convert),
        Prim("bitcast", pointwise, T.bitcast),
        Prim("iota", Kind.CREATE, T.create),
        Prim("full", Kind.CREATE, T.create),
        Prim("broadcast", view, T.broadcast),
        Prim("reshape", view, T.reshape),
        Prim("transpose", view, T.transpose),
        *(Prim(n, Kind.REDUCE, T.reduce) for n in REDUCE),
        *(Prim(n, Kind.REDUCE, T.arg_reduce) for n in ARG_REDUCE),
        Prim("dot", Kind.DOT, T.dot),
        Prim("slice", other, T.slice_),
        Prim("pad", other, T.pad),
        Prim("concat", other, T.concat),
        Prim("rev", other, T.keep),
        Prim("gather", other, T.gather),
        Prim("scatter", other, T.scatter),
        Prim("check", other, T.check),
        *(Prim(n, other, T.keep) for n in CUMULATIVE),
        Prim("sort", other, T.sort),
        Prim("conv", other, T.conv),
    ]


PRIMS: dict[str, Prim] = {row.name: row for row in _rows()}
"""Every primitive by name, except `eager`, whose result types come from torch."""

EAGER = "eager"
