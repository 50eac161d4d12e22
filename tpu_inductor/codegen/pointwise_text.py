"""How kernels spell pointwise primitives where Mosaic wants them wider than XLA does.

A mask has the layout of what it was compared from. Masks of 16-bit and of 32-bit values do not
meet in one register, so 16-bit operands of comparisons and selects pass through float32, which
is exact.
"""

from collections.abc import Sequence
from dataclasses import replace

from tpu_inductor.codegen.expr import spell
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import COMPARE
from tpu_inductor.graph.types import DType


def pointwise_text(eqn: Eqn, inputs: Sequence[Value], operands: Sequence[str]) -> str:
    """The expression of a pointwise equation over `inputs`, which are spelled `operands`."""
    narrow = any(v.type.dtype is DType.BF16 for v in inputs)
    if not narrow or eqn.prim not in (*COMPARE, "is_nan", "select"):
        return spell(replace(eqn, inputs=tuple(inputs)), operands)
    wide = tuple(_widened(v) for v in inputs)
    texts = [_widened_text(v, text) for v, text in zip(inputs, operands, strict=True)]
    if eqn.prim != "select":
        return spell(replace(eqn, inputs=wide), texts)
    out = Var(eqn.out.name, eqn.out.type.with_dtype(DType.F32))
    text = spell(replace(eqn, inputs=wide, outputs=(out,)), texts)
    return f"{text}.astype(jnp.bfloat16)"


def _widened(value: Value) -> Value:
    if value.type.dtype is not DType.BF16:
        return value
    if isinstance(value, Lit):
        return Lit(value.value, DType.F32)
    return Var(value.name, value.type.with_dtype(DType.F32))


def _widened_text(value: Value, text: str) -> str:
    is_narrow = isinstance(value, Var) and value.type.dtype is DType.BF16
    return f"{text}.astype(jnp.float32)" if is_narrow else text
