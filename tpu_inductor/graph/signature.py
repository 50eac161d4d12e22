"""How a graph's flat inputs and outputs look to the caller, beside their logical types.

Graph values are dense and row-major. A caller's tensor with permuted strides enters as its
permuted, dense view; the importer adds the `transpose` that restores its logical order.
Results lie in storages, which are graph values in the order of memory or belong to arguments.
"""

from dataclasses import dataclass
from typing import TypeAlias

from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType, Scalar


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor argument. `arg.permute(perm)` is what `var` holds; it is dense unless `copy`.

    `copy` marks arguments with holes, overlaps or expanded dimensions: they are made contiguous.
    """

    var: Var
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    perm: tuple[int, ...]
    copy: bool


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A Python number that enters the program as a 0-dimensional value at run time."""

    var: Var


@dataclass(frozen=True, slots=True)
class StaticInput:
    """An argument that the graph does not read: a size the compilation is special to, or unused."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a tensor lie in a storage, counted in elements of `dtype`.

    The element at index i lies at `offset + sum(i[d] * strides[d])`, as in `torch.as_strided`.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def row_major(dtype: DType, shape: tuple[int, ...]) -> "Layout":
        """All of a storage in order, with the strides that torch gives a new tensor."""
        strides: list[int] = []
        stride = 1
        for extent in reversed(shape):
            strides.append(stride)
            stride *= max(extent, 1)
        return Layout(dtype, shape, tuple(reversed(strides)))

    @property
    def extent(self) -> int:
        """How many elements a storage must have to hold the tensor."""
        if 0 in self.shape:
            return self.offset
        dims = zip(self.shape, self.strides, strict=True)
        return self.offset + 1 + sum((n - 1) * stride for n, stride in dims)

    @property
    def nbytes(self) -> int:
        return self.extent * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """A tensor result in memory that the call makes.

    `value` lies as `base` in storage number `storage`, of which the caller sees `layout`. Results
    of one number share their memory, as torch's do, and have one `value` and `base`; those of
    different numbers have memory of their own, even where they have one value. What `is_returned`
    to the user lies in memory that can be resized.
    """

    value: Value
    base: Layout
    layout: Layout
    storage: int
    is_returned: bool = True


@dataclass(frozen=True, slots=True)
class ArgumentOutput:
    """A result that is argument `index`, or a view of its memory: `layout`.

    The offset of `layout` counts from the argument's first element. None is the very tensor.
    """

    index: int
    layout: Layout | None


@dataclass(frozen=True, slots=True)
class SameAsResult:
    """A result that is the very tensor of result `index`: the graph names one node twice."""

    index: int


@dataclass(frozen=True, slots=True)
class ConstantOutput:
    """A result that is known at compile time: None or a number."""

    value: Scalar | None


@dataclass(frozen=True, slots=True)
class ScalarOutput:
    """A result that the caller sees as a Python number: the item of a 0-dimensional value."""

    value: Value


Output: TypeAlias = TensorOutput | ArgumentOutput | SameAsResult | ConstantOutput | ScalarOutput


@dataclass(frozen=True, slots=True)
class Signature:
    """The calling convention of a compiled graph, argument by argument, result by result."""

    inputs: tuple[TensorInput | ScalarInput | StaticInput, ...]
    outputs: tuple[Output, ...]
