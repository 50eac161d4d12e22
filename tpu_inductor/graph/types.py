"""Element types and tensor types of the graph IR."""

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

# Slow to import, and compile workers know numbers alone.
if TYPE_CHECKING:
    import sympy

Dim: TypeAlias = "int | sympy.Expr"
"""An extent: a number, or an expression over the symbols of a dynamic shape."""

Shape: TypeAlias = tuple[Dim, ...]
Scalar: TypeAlias = bool | int | float


class DType(enum.Enum):
    """An element type. The value is its name in emitted `jnp.` code."""

    F64 = "float64"
    F32 = "float32"
    BF16 = "bfloat16"
    F16 = "float16"
    F8E4M3 = "float8_e4m3fn"
    F8E5M2 = "float8_e5m2"
    I64 = "int64"
    I32 = "int32"
    I16 = "int16"
    I8 = "int8"
    U64 = "uint64"
    U32 = "uint32"
    U16 = "uint16"
    U8 = "uint8"
    BOOL = "bool_"
    C64 = "complex64"
    C128 = "complex128"

    @property
    def short(self) -> str:
        """The name in dumps: `f32`, `bf16`, `i64`, `bool`."""
        return self.name.lower()

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]

    @property
    def is_float(self) -> bool:
        return self.name[0] == "F" or self is DType.BF16

    @property
    def is_complex(self) -> bool:
        """Complex values live in torch alone: no primitive takes them."""
        return self.name[0] == "C"

    @property
    def is_signed_int(self) -> bool:
        return self.name[0] == "I"

    @property
    def is_int(self) -> bool:
        return self.name[0] in "IU"


_ITEMSIZE = {
    d: 1 if d is DType.BOOL or d.name[1:2] == "8" else int(d.name.lstrip("BCFIU")) // 8
    for d in DType
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of a value."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape as numbers; every graph after import is concrete."""
        return tuple(int(d) for d in self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> "TensorType":
        return TensorType(shape, self.dtype)

    def with_dtype(self, dtype: DType) -> "TensorType":
        return TensorType(self.shape, dtype)

    def __str__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"
