"""How kernels spell reductions: of a block, into an accumulator, and their identities."""

from dataclasses import dataclass

from tpu_inductor.codegen.expr_literal import dtype_text, number
from tpu_inductor.graph.core import Lit
from tpu_inductor.graph.types import DType


@dataclass(frozen=True, slots=True)
class ReductionText:
    """`block` reduces axes of one block, `combine` two partial results."""

    block: str
    combine: str
    identity: float


_SUM = ReductionText("jnp.sum", "{} + {}", 0.0)
_MAX = ReductionText("jnp.max", "jnp.maximum({}, {})", float("-inf"))
_MIN = ReductionText("jnp.min", "jnp.minimum({}, {})", float("inf"))

_TEXT = {"reduce_sum": _SUM, "reduce_max": _MAX, "reduce_min": _MIN, "dot": _SUM}
_OF_MASKS = {
    "reduce_sum": _MAX,
    "reduce_max": _MAX,
    "reduce_or": _MAX,
    "reduce_min": _MIN,
    "reduce_and": _MIN,
}


def reduction_text(prim: str, dtype: DType) -> ReductionText:
    """The spelling of a reduction of `dtype`; masks reduce as integers 0 and 1."""
    return _OF_MASKS[prim] if dtype is DType.BOOL else _TEXT[prim]


def identity_text(prim: str, dtype: DType) -> str:
    """The number that changes no result of the reduction."""
    if dtype is DType.BOOL:
        return "0" if reduction_text(prim, dtype) is _MAX else "1"
    value = reduction_text(prim, dtype).identity
    if dtype is DType.I32 and value != 0:
        value = -(2**31) if value < 0 else 2**31 - 1
    return number(Lit(value, dtype))


def block_reduction(prim: str, dtype: DType, operand: str, axes: tuple[int, ...]) -> str:
    """The reduction of one block, which keeps the reduced dimensions as 1. Masks give int32."""
    text = reduction_text(prim, dtype)
    if dtype is DType.BOOL:
        operand = f"{operand}.astype({dtype_text(DType.I32)})"
    if prim != "reduce_sum" or dtype is not DType.I32:
        return f"{text.block}({operand}, axis={axes}, keepdims=True)"
    # Mosaic sums whole arrays of integers in 64 bits where JAX has those, and then refuses them.
    for part in (axes[1:], axes[:1]):
        if part:
            operand = f"{text.block}({operand}, axis={part}, keepdims=True, dtype=jnp.int32)"
    return operand
