"""The static parameters of primitives, one frozen class per kind of primitive."""

from dataclasses import dataclass
from typing import TypeAlias

from tpu_inductor.graph.types import DType, Scalar, Shape


@dataclass(frozen=True, slots=True)
class NoAttrs:
    """A primitive that is given by its operands alone."""


@dataclass(frozen=True, slots=True)
class Convert:
    """`convert` (by value) and `bitcast` (by bits) to `dtype`."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Iota:
    """0, 1, 2, ... along `dim` of a new tensor."""

    shape: Shape
    dtype: DType
    dim: int


@dataclass(frozen=True, slots=True)
class Full:
    """A new tensor of one value."""

    shape: Shape
    dtype: DType
    value: Scalar


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Operand dimension i becomes dimension `dims[i]` of `shape`; it is equal or 1."""

    shape: Shape
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    shape: Shape


@dataclass(frozen=True, slots=True)
class Transpose:
    """Result dimension i is operand dimension `perm[i]`."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dims:
    """The dimensions that a reduction removes, or that `rev` turns round."""

    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """The dimension of concat, a cumulative operation, argmax or argmin."""

    dim: int


@dataclass(frozen=True, slots=True)
class Slice:
    """`x[start:limit:stride]` per dimension; strides are positive."""

    start: tuple[int, ...]
    limit: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pad:
    """Elements to add per dimension before, after and between; negative edges crop."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """A contraction. Result dimensions: batch, free of the left, free of the right.

    `precision` is "highest", "high" or "default" and counts for float32 operands alone.
    `dtype` is the type of the accumulator and of the result.
    """

    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    precision: str
    dtype: DType

    def free(self, side: str, rank: int) -> tuple[int, ...]:
        """The dimensions of the "lhs" or "rhs" operand that are neither batch nor contracted."""
        if side == "lhs":
            taken = (*self.lhs_contract, *self.lhs_batch)
        else:
            taken = (*self.rhs_contract, *self.rhs_batch)
        return tuple(d for d in range(rank) if d not in taken)


@dataclass(frozen=True, slots=True)
class Gather:
    """`operand` indexed by one integer array per dimension of `dims`.

    The index arrays have one shape; the result has that shape, then the other dimensions of
    the operand in order. An index out of bounds reads NaN (floats) or the type's minimum.
    """

    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scatter:
    """The operand with `updates` written where `Gather(dims)` would read.

    `mode` is "set", "add", "mul", "max" or "min". Updates out of bounds are dropped.
    Operands: the tensor, the updates, one index array per dimension of `dims`.
    """

    dims: tuple[int, ...]
    mode: str


@dataclass(frozen=True, slots=True)
class Check:
    """The integers that eager torch accepts: `count` from `start` on, modulo 2**64, and `ignored`.

    A divisor may be all but 0: 2**64 - 1 integers from 1 on. Others raise `error`, the name of an
    exception of Python, with torch's `message`, where `{found}` stands for the integer.
    """

    start: int
    count: int
    error: str
    message: str
    ignored: int | None = None


@dataclass(frozen=True, slots=True)
class Sort:
    """A stable sort along `dim`. Results: the values, and their int64 indices. NaN is largest."""

    dim: int
    descending: bool


@dataclass(frozen=True, slots=True)
class Conv:
    """Convolution of any spatial rank of (n, in, *spatial); weights (out, in/groups, *window).

    With `channels_last` the operand and the result are (n, *spatial, channels). `method` is how the
    CPU computes it, because of `why`; see `conv_methods`.
    """

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    precision: str
    channels_last: bool = False
    method: str = "library"
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class EagerCall:
    """An ATen call that runs in torch between two programs: it has no lowering, or `is_chosen`.

    `target` is the operator; `args` and `kwargs` hold `Hole(i)` where operand i goes.
    """

    target: object
    args: tuple[object, ...]
    kwargs: tuple[tuple[str, object], ...]
    reason: str
    result_is_tuple: bool
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of operand `index` among the arguments of an eager call."""

    index: int


Attrs: TypeAlias = (
    NoAttrs
    | Convert
    | Iota
    | Full
    | Broadcast
    | Reshape
    | Transpose
    | Dims
    | Axis
    | Slice
    | Pad
    | Dot
    | Gather
    | Scatter
    | Check
    | Sort
    | Conv
    | EagerCall
)
