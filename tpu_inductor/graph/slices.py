"""Slices before it transposes, so that XLA moves only what is read, and moves it once.

slice(transpose(x; p); s)   -->   transpose(slice(x; s in the order of x); p)
"""

from collections.abc import Sequence
from dataclasses import replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Value
from tpu_inductor.graph.simplify import drop_dead


def slice_before_transposing(graph: Graph) -> Graph:
    """The same function, with the slices of transposed values taken before.

    Not where something else reads the transposed value, which is then made anyway.
    """
    transposes = _read_by_slices(graph)
    builder = Builder.after(graph)
    for eqn in graph.eqns:
        turned = transposes.get(eqn.inputs[0]) if eqn.prim == "slice" else None
        builder.sink.eqns.append(eqn if turned is None else _sliced_first(eqn, turned, builder))
    return drop_dead(replace(graph, eqns=tuple(builder.sink.eqns)))


def _read_by_slices(graph: Graph) -> dict[Value, Eqn]:
    """The transposes whose results only slices read, by result."""
    others: set[Value] = {v for e in graph.eqns if e.prim != "slice" for v in e.inputs}
    others.update(graph.outputs)
    return {e.out: e for e in graph.eqns if e.prim == "transpose" and e.out not in others}


def _sliced_first(eqn: Eqn, turned: Eqn, builder: Builder) -> Eqn:
    """Appends the slice of what `turned` transposes, and returns its transposition."""
    assert isinstance(eqn.attrs, A.Slice)
    assert isinstance(turned.attrs, A.Transpose)
    perm, slice_ = turned.attrs.perm, eqn.attrs

    def back(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[perm.index(d)] for d in range(len(perm)))

    attrs = A.Slice(back(slice_.start), back(slice_.limit), back(slice_.stride))
    b = builder.at(eqn.origin, eqn.out.name, ())
    part = b.one("slice", turned.inputs[0], attrs=attrs)
    return replace(eqn, prim="transpose", inputs=(part,), attrs=turned.attrs)
