"""Python arithmetic on numbers that are known at run time, as equations on 0-d values.

SymInt is i64, SymFloat is f64 and SymBool is bool. The rules are Python's: `//` and `%` round down,
`/` gives a float, and where Python raises there is a check. What is not listed here makes the whole
graph run in torch.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.arithmetic import floor_quotient, floor_remainder
from tpu_inductor.lowerings.checks import check_finite, check_number_divisor, check_radicand

Rule = Callable[..., Value]


def number_type(value: Any) -> DType:
    """The element type of a runtime number, from its symbolic or actual value."""
    if isinstance(value, bool | torch.SymBool):
        return DType.BOOL
    return DType.I64 if isinstance(value, int | torch.SymInt) else DType.F64


def as_value(b: Builder, x: Any) -> Value:
    return x if isinstance(x, Var | Lit) else b.lit(x, number_type(x))


def fill_tensors(b: Builder, op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`args` of `op`, where numbers that stand for its only tensors are 0-d values.

    Tracing writes a number that torch has made a tensor as a number again. Beside a tensor it stays
    one, because its type counts less than a tensor's.
    """
    if any(isinstance(x, Var) for x in args):
        return args
    parameters = op._schema.arguments[: len(args)]
    wants = [isinstance(p.type, torch.TensorType) for p in parameters]
    return tuple(
        as_value(b, x) if wanted and isinstance(x, bool | int | float) else x
        for x, wanted in zip(args, wants, strict=True)
    )


def compute_number(b: Builder, target: Any, args: tuple[Any, ...]) -> Value | Reject:
    """The equations of `target(*args)`, or why there are none."""
    rule = _RULES.get(target)
    if rule is None:
        return Reject(f"{getattr(target, '__name__', target)} of a number known only at run time")
    return rule(b, *(as_value(b, x) for x in args))


def _unify(b: Builder, xs: tuple[Value, ...], floats: bool) -> list[Value]:
    is_float = floats or any(x.type.dtype is DType.F64 for x in xs)
    return [b.convert(x, DType.F64 if is_float else DType.I64) for x in xs]


def _arithmetic(prim: str, floats: bool = False) -> Rule:
    return lambda b, *xs: b.op(prim, *_unify(b, xs, floats))


def _logical(prim: str) -> Rule:
    return lambda b, *xs: b.op(prim, *(b.convert(x, DType.BOOL) for x in xs))


def _floor_division(b: Builder, x: Value, y: Value) -> Value:
    return floor_quotient(b, *_unify(b, (x, y), floats=False))


def _modulo(b: Builder, x: Value, y: Value) -> Value:
    return floor_remainder(b, *_unify(b, (x, y), floats=False))


def _division(divide: Callable[[Any, Any], Any], rule: Rule) -> Rule:
    """`rule`, which is Python's `divide`, with a check of the divisor."""

    def checked(b: Builder, x: Value, y: Value) -> Value:
        check_number_divisor(b, divide, x, y)
        return rule(b, x, y)

    return checked


def _square_root(b: Builder, x: Value) -> Value:
    (x,) = _unify(b, (x,), floats=True)
    check_radicand(b, x)
    return b.op("sqrt", x)


def _rounding(prim: str) -> Rule:
    def rounded(b: Builder, x: Value) -> Value:
        x = b.convert(x, DType.F64)
        check_finite(b, x)
        return b.convert(b.op(prim, x), DType.I64)

    return rounded


def _conversion(dtype: DType) -> Rule:
    return lambda b, x: b.convert(x, dtype)


def _choose(b: Builder, pred: Value, x: Value, y: Value) -> Value:
    return b.op("select", pred, *_unify(b, (x, y), floats=False))


_RULES: dict[Any, Rule] = {
    operator.add: _arithmetic("add"),
    operator.sub: _arithmetic("sub"),
    operator.mul: _arithmetic("mul"),
    operator.neg: _arithmetic("neg"),
    operator.truediv: _division(operator.truediv, _arithmetic("div", floats=True)),
    operator.floordiv: _division(operator.floordiv, _floor_division),
    operator.mod: _division(operator.mod, _modulo),
    operator.eq: _arithmetic("eq"),
    operator.ne: _arithmetic("ne"),
    operator.lt: _arithmetic("lt"),
    operator.le: _arithmetic("le"),
    operator.gt: _arithmetic("gt"),
    operator.ge: _arithmetic("ge"),
    operator.and_: _logical("and"),
    operator.or_: _logical("or"),
    math.floor: _rounding("floor"),
    math.ceil: _rounding("ceil"),
    torch.sym_int: _rounding("trunc"),
    torch.sym_float: _conversion(DType.F64),
    torch.sym_not: _logical("not"),
    torch.sym_max: _arithmetic("max"),
    torch.sym_min: _arithmetic("min"),
    torch.sym_ite: _choose,
    torch._sym_sqrt: _square_root,  # pyright: ignore[reportAttributeAccessIssue] made by a loop
}
