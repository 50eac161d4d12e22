"""Constants in the precision of an element type."""

import math
import struct

from tpu_inductor.graph.types import DType, Scalar


def round_to(value: Scalar, dtype: DType) -> Scalar | None:
    """`value` as `dtype` holds it, by the rules of `convert`; None where these leave it open."""
    if dtype is DType.BOOL:
        return value != 0
    if dtype.is_int:
        return _to_int(value, dtype)
    return _to_float(float(value), dtype)


def _to_int(value: Scalar, dtype: DType) -> int | None:
    bits = 8 * dtype.itemsize
    if isinstance(value, float):
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if dtype.is_signed_int else (0, 2**bits)
        return int(value) if math.isfinite(value) and low <= math.trunc(value) < high else None
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if dtype.is_signed_int and wrapped >> (bits - 1) else wrapped


def _to_float(value: float, dtype: DType) -> float | None:
    if dtype is DType.F64 or not math.isfinite(value):
        return value if dtype in (DType.F64, DType.F32, DType.BF16, DType.F16) else None
    if dtype is DType.F32:
        return _pack(value, "f")
    if dtype is DType.F16:
        return _pack(value, "e")
    return _to_bf16(value) if dtype is DType.BF16 else None


def _pack(value: float, code: str) -> float | None:
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def _to_bf16(value: float) -> float | None:
    """Rounds the float32 to its upper half, ties to even, as torch and XLA do."""
    single = _pack(value, "f")
    if single is None or not math.isfinite(single):
        return single
    (bits,) = struct.unpack("I", struct.pack("f", single))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("f", struct.pack("I", bits))[0]
