"""How element types, constants and operands are written in emitted code."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tpu_inductor.graph.core import Eqn, Lit
from tpu_inductor.graph.types import DType

Spelling: TypeAlias = Callable[[Eqn, Sequence[str]], str]
"""From an equation and the text of its operands to an expression."""

HALF = (DType.BF16, DType.F16)
FLOAT8 = (DType.F8E4M3, DType.F8E5M2)


def dtype_text(dtype: DType) -> str:
    """`jnp.float32`."""
    return f"jnp.{dtype.value}"


def number(lit: Lit) -> str:
    """The value of `lit` as Python text: `-0.0`, `jnp.nan`, `True`, `7`."""
    if lit.dtype is DType.BOOL:
        return str(bool(lit.value))
    if not lit.dtype.is_float:
        return str(int(lit.value))
    value = float(lit.value)
    if math.isnan(value):
        return "jnp.nan"
    if math.isinf(value):
        return "jnp.inf" if value > 0 else "-jnp.inf"
    return repr(value)


def typed_literal(lit: Lit) -> str:
    """`jnp.float32(1.5)`: a 0-dimensional array of exactly the literal's type."""
    return f"{dtype_text(lit.dtype)}({number(lit)})"


def literal(lit: Lit) -> str:
    """A Python number, which takes its type from the array beside it; typed where it cannot.

    JAX reads a bare int as int64, or int32 without x64, and promotes float8 beside a bare float.
    """
    if lit.dtype in FLOAT8:
        return typed_literal(lit)
    if lit.dtype is DType.U64 and int(lit.value) >= 2**63:
        return typed_literal(lit)
    if lit.dtype is DType.U32 and int(lit.value) >= 2**31:
        return typed_literal(lit)
    return number(lit)


def typed_operands(eqn: Eqn, operands: Sequence[str]) -> list[str]:
    """`operands` with every literal typed, for functions of `lax`, which do not promote."""
    pairs = zip(eqn.inputs, operands, strict=True)
    return [typed_literal(v) if isinstance(v, Lit) else text for v, text in pairs]


def mixed_operands(eqn: Eqn, operands: Sequence[str], first: int = 0) -> list[str]:
    """`operands` with bare literals, if a variable among those from `first` on sets the type."""
    if all(isinstance(v, Lit) for v in eqn.inputs[first:]):
        return typed_operands(eqn, operands)
    head = typed_operands(eqn, operands)[:first]
    return [*head, *operands[first:]]


def ints(values: Sequence[object]) -> str:
    """`(1, 2)` and `(1,)` of numbers, whatever integer type they have."""
    return str(tuple(int(v) for v in values))  # type: ignore[call-overload]
