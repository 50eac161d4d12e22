"""How a graph's flat inputs and outputs look to the caller, beside their logical types.

Graph values are dense and row-major. A caller's tensor with permuted strides enters as its
permuted, dense view; the importer adds the `transpose` that restores its logical order.
Outputs likewise.
"""

from dataclasses import dataclass

from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import Scalar


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
class TensorOutput:
    """A tensor result: `value` of the graph, seen by the caller as `value.permute(perm)`.

    `alias` says that torch too would return a view of an argument here; without it, the result has
    memory of its own even where the compiler finds that its value is an argument's (a `clone`).
    """

    value: Value
    perm: tuple[int, ...]
    alias: bool = False


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


@dataclass(frozen=True, slots=True)
class Signature:
    """The calling convention of a compiled graph, argument by argument, result by result."""

    inputs: tuple[TensorInput | ScalarInput | StaticInput, ...]
    outputs: tuple[TensorOutput | SameAsResult | ConstantOutput | ScalarOutput, ...]
