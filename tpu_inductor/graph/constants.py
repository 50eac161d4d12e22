"""Gives every reader of a constant that is made inside a copy of its own.

    p = iota(24); a = reshape(p; (24, 1)); b = reshape(p; (1, 24)); c = le(b, a)
    -->   p_2 = iota(24); b = reshape(p_2; (1, 24))

A mask that compares positions along two axes would otherwise need one value along its diagonal.
"""

from dataclasses import replace

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind


def copy_constants(eqns: tuple[Eqn, ...], inputs: tuple[Var, ...]) -> tuple[Eqn, ...]:
    """The same equations, in which an iota or a constant, and a view of one, has one reader."""
    builder = Builder.after(Graph("", inputs, eqns, ()))
    made: dict[Var, Eqn] = {}
    read: set[Var] = set()
    found: list[Eqn] = []

    def own(value: Value) -> Value:
        """`value`, copied with all that it is a view of if something reads it already."""
        if isinstance(value, Lit) or value not in made:
            return value
        if value not in read:
            read.add(value)
            return value
        eqn = made[value]
        out = Var(builder.fresh(value.name), value.type)
        copy = replace(eqn, inputs=tuple(map(own, eqn.inputs)), outputs=(out,))
        found.append(copy)
        return out

    for eqn in eqns:
        eqn = replace(eqn, inputs=tuple(map(own, eqn.inputs)))
        found.append(eqn)
        kind = None if eqn.prim == EAGER else PRIMS[eqn.prim].kind
        if kind is Kind.CREATE or (kind is Kind.VIEW and eqn.inputs[0] in made):
            made[eqn.out] = eqn
    return tuple(found)
