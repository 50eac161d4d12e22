"""Which blocks Pallas takes on a TPU, and the form in which a kernel takes a vector.

    bias f32[3072], tile 1024  --> block (1024,) of the vector
    bias f32[3072], tile 1536  --> all of it, of which the body reads 1536
    bias f32[1600], tile 384   --> block (1, 384) of a matrix, which XLA copies it to

`flaw_of_block` is Pallas' own rule (`_check_block_mappings` in jax/_src/pallas/mosaic/lowering.py)
and stricter in one thing: rows of narrow types come in whole packed tiles.
"""

from collections.abc import Sequence

from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.arrays import Axis, Form, Operand
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.target import TpuTarget

WHOLE_BYTES = 1 << 18
"""The longest vector of which every block is all: fetching more takes longer than a copy by XLA."""


def flaw_of_block(
    block: Sequence[int | None], array: Sequence[int], dtype: DType, target: TpuTarget
) -> str:
    """Why `target` takes no such block of an array that is stored in `dtype`; empty if it does.

    The last two dimensions of a block are multiples of (sublanes, lanes), or whole. A vector's one
    is whole, a multiple of a register, or a power of two from a packed row of lanes on. None is a
    squeezed dimension.
    """
    if not target.is_tpu:
        return ""
    if not block:
        return "has no dimension"
    if len(block) == 1:
        return _flaw_of_vector(block[0], array[0], dtype, target)
    tile = (target.sublanes(dtype), target.lanes)
    for extent, full, multiple in zip(block[-2:], array[-2:], tile, strict=True):
        if extent is None or (extent != full and extent % multiple):
            return f"is not made of {tile} tiles"
    return ""


def _flaw_of_vector(extent: int | None, full: int, dtype: DType, target: TpuTarget) -> str:
    register, least = target.lanes * target.sublanes(DType.F32), packed_lanes(dtype, target)
    if extent is None:
        return "squeezes a vector"
    is_power = extent >= least and extent.bit_count() == 1
    if extent == full or extent % register == 0 or is_power:
        return ""
    return f"is neither whole, nor made of {register}, nor a power of two from {least} on"


def packed_lanes(dtype: DType, target: TpuTarget) -> int:
    """Elements of a vector that fill one row of 32-bit lanes; where a part of one may start."""
    return target.lanes * max(1, 4 // dtype.itemsize)


def form_of(operand: Operand, axes: Sequence[Axis], target: TpuTarget, *, is_result: bool) -> Form:
    """How a kernel with these axes takes `operand`: a vector as it lies, where it can be."""
    *outer, last = operand.places
    axis = next(a for a in axes if a.name == last.axis)
    if operand.var.type.rank != 1 or not last.is_present or any(p.is_present for p in outer):
        return Form.ARRAY
    dtype = stored_dtype(operand.var.type)
    # v4 cannot write part of a register of bytes.
    if dtype.itemsize == 1 or axis.is_squeezed or axis.chunk:
        return Form.ROW
    if not flaw_of_block((axis.tile,), (axis.size,), dtype, target):
        return Form.VECTOR
    # Results cannot be whole: another core may write the rest.
    if is_result or not can_read_part(axis, dtype, target):
        return Form.ROW
    return Form.WHOLE_VECTOR if axis.size * dtype.itemsize <= WHOLE_BYTES else Form.ROW


def can_read_part(axis: Axis, dtype: DType, target: TpuTarget) -> bool:
    """Whether the body can read its part of a vector along `axis`: aligned, and none beyond it."""
    return not axis.has_tail and axis.tile % packed_lanes(dtype, target) == 0


def is_copied(operand: Operand, target: TpuTarget) -> bool:
    """Whether XLA moves data for the form of `operand`: a vector lies by whole registers.

    Vectors of 32 bits that fill their last register lie as a matrix of one row does.
    """
    register = target.lanes * target.sublanes(DType.F32)
    is_alike = (
        stored_dtype(operand.var.type).itemsize == 4 and operand.var.type.size % register == 0
    )
    return target.is_tpu and operand.form is Form.ROW and not is_alike
