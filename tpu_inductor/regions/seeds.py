"""Equal equations begin as equal groups: what one of them is alone is found once.

    add = add(x, y)    -->  form add(0, 1) -> 2, of f32[2,128]   -->  Seed
    add_2 = add(z, w)  -->  the same form, so the same seed      -->  Group, with other factors

A model of many layers has few forms.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.regions.factors import Dims, Unifier
from tpu_inductor.regions.groups import (
    Facts,
    Group,
    Late,
    Reading,
    assemble_group,
    move_facts,
    rename_dims,
)
from tpu_inductor.regions.wiring import Wiring

Form = Hashable
"""All there is to know of equations but names: what they compute, edges, types, what leaves."""


def form_of(wiring: Wiring, order: Sequence[int]) -> Form:
    """The form of equations in the order of the graph, of which the last one computes."""
    numbers: dict[Var, int] = {}

    def number(value: Value) -> Hashable:
        # As text: 0.0 and -0.0 are equal, NaN is not.
        return str(value) if isinstance(value, Lit) else numbers.setdefault(value, len(numbers))

    eqns = [wiring.graph.eqns[i] for i in order]
    edges = tuple((e.prim, e.attrs, *map(number, e.inputs), *map(number, e.outputs)) for e in eqns)
    leaves = tuple(v in wiring.returned or v in wiring.users for v in eqns[-1].outputs)
    return edges, tuple((v.type.shape, v.type.dtype) for v in numbers), leaves


@dataclass(frozen=True, slots=True)
class Seed:
    """An equation alone, its equations by their places in a form: the last one computes."""

    members: tuple[int, ...]
    values: tuple[tuple[Dims, ...], ...]
    readings: tuple[tuple[Reading, Dims], ...]
    facts: Facts
    late: Late
    late_members: tuple[int, ...]

    @staticmethod
    def of(group: Group, wiring: Wiring, order: Sequence[int]) -> "Seed":
        """What `group` is, before it grows; `order` are the equations of its form."""
        places = {i: n for n, i in enumerate(order)}
        members = tuple(n for n, i in enumerate(order) if i in group.members)
        made = (wiring.graph.eqns[order[n]].outputs for n in members)
        return Seed(
            members,
            tuple(tuple(group.values[v] for v in outputs) for outputs in made),
            tuple(((places[i], slot), dims) for (i, slot), dims in group.readings.items()),
            move_facts(group.facts, {f: f for f in group.facts.factors}, places),
            group.late,
            tuple(places[i] for i in group.late_eqns),
        )

    def plant(self, wiring: Wiring, unifier: Unifier, order: Sequence[int]) -> Group:
        """The group of the equations `order`, of the same form, with factors of its own."""
        names = {f: unifier.fresh_factor(f.size) for f in sorted(self.facts.factors)}
        members = [order[n] for n in self.members]
        values = {
            v: rename_dims(dims, names)
            for i, some in zip(members, self.values, strict=True)
            for v, dims in zip(wiring.graph.eqns[i].outputs, some, strict=True)
        }
        readings = {(order[n], slot): rename_dims(dims, names) for (n, slot), dims in self.readings}
        facts = move_facts(self.facts, names, order)
        group = assemble_group(wiring, {order[-1]}, set(members), values, readings, facts)
        group.late = Late(
            frozenset(rename_dims(dims, names) for dims in self.late.dims), self.late.reduces
        )
        group.late_eqns = {order[n] for n in self.late_members}
        return group
