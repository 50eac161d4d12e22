"""The graph IR: a flat list of equations in single-assignment form.

    graph    ::= inputs eqn* outputs
    eqn      ::= var* = prim(operand*; attrs)   # origin
    operand  ::= var | lit

Every operand is defined before it is used, and names are unique. `str(graph)` prints it.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from tpu_inductor.graph.attrs import Attrs
from tpu_inductor.graph.origin import Origin
from tpu_inductor.graph.text import attrs_text
from tpu_inductor.graph.types import DType, Scalar, TensorType


@dataclass(frozen=True, slots=True)
class Var:
    """A value that an equation or the graph's caller defines; `name` is unique in its graph."""

    name: str
    type: TensorType

    def __hash__(self) -> int:
        # The names of a graph are unique, and a string keeps its hash.
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Lit:
    """A 0-dimensional constant; as an operand of a pointwise primitive it fits any shape."""

    value: Scalar
    dtype: DType

    @property
    def type(self) -> TensorType:
        return TensorType((), self.dtype)

    def __str__(self) -> str:
        return f"{self.value!r}:{self.dtype.short}"


Value: TypeAlias = Var | Lit


@dataclass(frozen=True, slots=True)
class Eqn:
    """`outputs = prim(inputs; attrs)`.

    `operands` are the inputs that are variables, without repetition, in order.
    """

    prim: str
    inputs: tuple[Value, ...]
    outputs: tuple[Var, ...]
    attrs: Attrs
    origin: Origin = field(compare=False)
    operands: tuple[Var, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Asked for many times as often as equations are made.
        operands = tuple(dict.fromkeys([v for v in self.inputs if isinstance(v, Var)]))
        object.__setattr__(self, "operands", operands)

    @property
    def out(self) -> Var:
        """The result of an equation that has one."""
        (out,) = self.outputs
        return out

    def __str__(self) -> str:
        outs = ", ".join(f"{v.name}: {v.type}" for v in self.outputs)
        operands = ", ".join(map(str, self.inputs))
        return f"{outs} = {self.prim}({operands}{attrs_text(self.attrs)})  # {self.origin}"


@dataclass(frozen=True, slots=True)
class Graph:
    """Equations from `inputs` to `outputs`. An output may be an input or be repeated."""

    name: str
    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Value, ...]

    def __str__(self) -> str:
        args = ", ".join(f"{v.name}: {v.type}" for v in self.inputs)
        body = "".join(f"  {eqn}\n" for eqn in self.eqns)
        return f"graph {self.name}({args}):\n{body}  return {', '.join(map(str, self.outputs))}\n"
