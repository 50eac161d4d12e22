"""Regions that stream, and an executor that runs a stream block by block in torch.

graph = build(attention)
stream = stream_of(graph)
got = run_stream(stream, values, block=16)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch.fx import GraphModule

from tpu_inductor.errors import Reject
from tpu_inductor.front.import_fx import import_fx
from tpu_inductor.front.trace import trace_with
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.constants import copy_constants
from tpu_inductor.graph.core import Eqn, Graph, Lit, Var
from tpu_inductor.graph.interp import run, run_eqn
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Access, Dims, Factor, Factoring, factorise
from tpu_inductor.streams.stream import Stream, find_stream

START: dict[str, Callable[[torch.dtype], object]] = {
    "add": lambda dtype: 0,
    "mul": lambda dtype: 1,
    "max": lambda dtype: -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min,
    "min": lambda dtype: math.inf if dtype.is_floating_point else torch.iinfo(dtype).max,
    "and": lambda dtype: True,
    "or": lambda dtype: False,
}
MERGE = {
    "add": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "and": torch.logical_and,
    "or": torch.logical_or,
}


def axis_of(graph: Graph, factoring: Factoring) -> frozenset[Factor]:
    """What the last closing equation of a graph closes."""
    for i in reversed(range(len(graph.eqns))):
        eqn = graph.eqns[i]
        if eqn.prim.startswith("reduce_") or eqn.prim == "dot":
            dims = factoring.of(graph.eqns, i, 0)
            closed = eqn.attrs.dims if isinstance(eqn.attrs, A.Dims) else eqn.attrs.lhs_contract
            return frozenset(f for f in dims[closed[-1]])
    raise AssertionError("nothing is closed")


def find(graph: Graph, size: int | None = None) -> Stream | Reject:
    """The graph as a stream along its axis of `size` elements, or its last closed one."""
    factoring = factorise(graph.eqns, FACTOR_RULES)
    assert isinstance(factoring, Factoring), factoring
    if size is None:
        axis = axis_of(graph, factoring)
    else:
        axis = frozenset(f for f in factoring.factors if f.size == size)
    outputs = tuple(v for v in graph.outputs if isinstance(v, Var))
    return find_stream(graph.eqns, graph.inputs, outputs, factoring, axis)


def stream_of(graph: Graph, size: int | None = None) -> Stream:
    found = find(graph, size)
    assert isinstance(found, Stream), found
    return found


def refusal_of(graph: Graph, size: int | None = None) -> str:
    found = find(graph, size)
    assert isinstance(found, Reject), str(found)
    return found.reason


class Runner:
    """A stream over the blocks of its one factor, with the values of the equations so far."""

    def __init__(self, stream: Stream, values: Sequence[Tensor]):
        self.stream = stream
        (self.factor,) = stream.axis
        self.env: dict[Var, Tensor] = dict(zip(stream.inputs, values, strict=True))
        self.carries = {c.eqn: c for c in stream.carries}
        self.start, self.size = 0, 0
        self.wide: dict[Var, list[Tensor]] = {}

    def run(self, block: int) -> list[Tensor]:
        self.execute(self.stream.before)
        for i, carry in self.carries.items():
            out = self.stream.eqns[i].out
            dtype = TORCH_DTYPE[out.type.dtype]
            self.env[out] = torch.full(out.type.dims, START[carry.merge](dtype), dtype=dtype)
        self.start_tags()
        for start in range(0, self.factor.size, block):
            self.start, self.size = start, min(block, self.factor.size - start)
            self.run_block()
        self.execute(self.stream.finish)
        return [
            torch.cat(self.wide[v], self.place(self.stream.factoring.values[v]))
            if v in self.wide
            else self.env[v]
            for v in self.stream.outputs
        ]

    def start_tags(self) -> None:
        """The tags as they follow from the carries' starting values."""
        wanted = {tag for c in self.stream.carries if c.repair for tag in c.repair.tags}
        for i in self.stream.body:
            eqn = self.stream.eqns[i]
            dims = (self.stream.factoring.values[eqn.out], *self.operand_dims(i))
            if i not in self.carries and not any(map(self.lies_along, dims)):
                self.execute((i,))
        assert wanted <= self.env.keys()

    def run_block(self) -> None:
        before = dict(self.env)
        for i in self.stream.body:
            eqn, carry = self.stream.eqns[i], self.carries.get(i)
            self.execute((i,))
            if carry is not None:
                kept = before[eqn.out]
                if carry.repair is not None:
                    tags = carry.repair.tags
                    ends = [before[t] for t in tags] + [self.env[t] for t in tags]
                    (change,) = run(carry.repair.graph, ends)
                    kept = kept * change if carry.repair.kind == "scale" else kept + change
                self.env[eqn.out] = MERGE[carry.merge](kept, self.env[eqn.out])
        for v in self.stream.outputs:
            if self.lies_along(self.stream.factoring.values.get(v, ())):
                self.wide.setdefault(v, []).append(self.env[v])

    # -- one equation on a block ---------------------------------------------------------
    def execute(self, indices: Sequence[int]) -> None:
        for i in indices:
            eqn = self.blocked(i)
            operands = [self.read(i, slot) for slot in range(len(eqn.inputs))]
            (self.env[eqn.out],) = run_eqn(eqn, operands)
            original = self.stream.eqns[i]
            self.env[original.out] = self.env.pop(eqn.out)
            if (
                eqn.prim == "iota"
                and self.factor in self.stream.factoring.values[original.out][eqn.attrs.dim]
            ):
                self.env[original.out] = self.env[original.out] + self.start

    def blocked(self, index: int) -> Eqn:
        eqn = self.stream.eqns[index]
        dims = self.stream.factoring.values[eqn.out]
        shape = tuple(
            math.prod(self.size if f == self.factor else f.size for f in dim) for dim in dims
        )
        attrs = eqn.attrs
        if isinstance(attrs, A.Broadcast | A.Reshape | A.Iota | A.Full):
            attrs = replace(attrs, shape=shape)
        out = Var(eqn.out.name, eqn.out.type.with_shape(shape))
        return replace(eqn, attrs=attrs, outputs=(out,))

    def read(self, index: int, slot: int) -> Tensor:
        value = self.stream.eqns[index].inputs[slot]
        if isinstance(value, Lit):
            return torch.tensor(value.value, dtype=TORCH_DTYPE[value.dtype])
        tensor = self.env[value]
        dims = self.stream.factoring.accesses.get(Access(index, slot), ())
        if self.lies_along(dims):
            return tensor.narrow(self.place(dims), self.start, self.size)
        return tensor

    def operand_dims(self, index: int) -> list[Dims]:
        eqn = self.stream.eqns[index]
        return [
            self.stream.factoring.of(self.stream.eqns, index, s) for s in range(len(eqn.inputs))
        ]

    def lies_along(self, dims: Dims) -> bool:
        return any(self.factor in dim for dim in dims)

    def place(self, dims: Dims) -> int:
        return next(d for d, dim in enumerate(dims) if self.factor in dim)


def run_stream(stream: Stream, values: Sequence[Tensor], block: int) -> list[Tensor]:
    """The outputs of a stream that is run in blocks of `block` elements."""
    return Runner(stream, values).run(block)


def check_stream(
    graph: Graph,
    values: Sequence[Tensor],
    size: int | None = None,
    blocks: Sequence[int] = (1, 5, 16, 64, 1000),
    tolerance: float = 1e-9,
) -> Stream:
    """Asserts that every split into blocks gives what the graph gives as a whole."""
    stream = stream_of(graph, size)
    want = run(graph, values)
    for block in blocks:
        for got, wanted in zip(run_stream(stream, values, block), want, strict=True):
            torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    return stream


def trace(fn: Callable[..., Tensor], *args: Tensor) -> tuple[Graph, list[Tensor]]:
    """`fn` as the compiler imports it, and the tensors for the inputs of its graph."""
    calls: list[tuple[GraphModule, tuple[Tensor, ...]]] = []

    def compiler(gm: GraphModule, _: Sequence[Tensor]):
        def call(*inputs: Tensor):
            calls.append((gm, inputs))
            return gm(*inputs)

        return make_boxed_func(call)

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(fn, backend=trace_with(compiler), fullgraph=True, dynamic=False)(*args)
    ((gm, inputs),) = calls
    imported = import_fx(gm, "forward", {})
    assert not isinstance(imported, Reject), imported
    graph = simplify(imported.graph)
    graph = replace(graph, eqns=copy_constants(graph.eqns, graph.inputs))
    layouts = imported.signature.inputs
    dense = [x.permute(i.perm).contiguous() for x, i in zip(inputs, layouts, strict=True)]
    return graph, dense + [x for _, x in imported.constants]
