"""What Mosaic, the TPU kernel compiler, can lower: the reasons to leave an equation to XLA.

The table was measured with libtpu 0.0.42 (shared notes: "What Mosaic lowers"); the test that
compiles every admitted primitive for a TPU keeps it honest.
"""

from typing import cast

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType

COMPUTE = frozenset({DType.F32, DType.BF16, DType.I32, DType.BOOL})
"""Types that kernels compute in. Narrow integers are converted, wide types are XLA's."""

NO_LOWERING = frozenset(
    [
        "expm1",
        "erfc",
        "erf_inv",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "atan2",
        "lgamma",
        "digamma",
        "nextafter",
        "reduce_prod",
        "bitcast",
    ]
)

NOT_IN_BF16 = frozenset(("log2", "rem", "argmax", "argmin"))
"""Primitives that Mosaic lowers for float32 and int32 alone."""


def reject_for_mosaic(eqn: Eqn) -> Reject | None:
    """Why this equation cannot be part of a kernel, if it cannot."""
    kind = PRIMS[eqn.prim].kind
    if kind is Kind.OTHER:
        return Reject(f"{eqn.prim} has no kernel, XLA runs it")
    if eqn.prim in NO_LOWERING:
        return Reject(f"Mosaic does not lower {eqn.prim}")
    if any(v.type.size == 0 for v in (*eqn.inputs, *eqn.outputs)):
        return Reject("an empty tensor")
    if kind in (Kind.POINTWISE, Kind.REDUCE) and all(
        v.type.size == 1 for v in (*eqn.inputs, *eqn.outputs)
    ):
        return Reject("a scalar")
    return _reject_type(eqn, kind)


def _reject_type(eqn: Eqn, kind: Kind) -> Reject | None:
    for value in (*eqn.inputs, *eqn.outputs):
        if value.type.dtype not in COMPUTE:
            return Reject(f"kernels do not compute in {value.type.dtype.short}")
    dtype = (eqn.inputs or eqn.outputs)[0].type.dtype
    if eqn.prim in NOT_IN_BF16 and dtype is DType.BF16:
        return Reject(f"Mosaic does not lower {eqn.prim} of bf16")
    if eqn.prim == "select" and eqn.out.type.dtype is DType.BOOL:
        return Reject("Mosaic does not lower a select between masks")
    if kind is Kind.DOT:
        return _reject_dot(eqn)
    if kind is Kind.REDUCE and dtype is DType.BF16:
        return Reject(f"{eqn.prim} of bf16 without a float32 accumulator")
    return None


def _reject_dot(eqn: Eqn) -> Reject | None:
    lhs, attrs = eqn.inputs[0].type, cast(A.Dot, eqn.attrs)
    if lhs.dtype not in (DType.F32, DType.BF16) or attrs.dtype is not DType.F32:
        return Reject(
            f"the MXU has no {lhs.dtype.short} x {lhs.dtype.short} -> {attrs.dtype.short}"
        )
    return None
