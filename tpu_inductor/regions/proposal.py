"""A join on trial: two groups as if they were one, for the join rules to judge.

    join_groups(...)   -->   Proposal, or Reject where the groups have no common axes
    proposal.accept()  -->   the Group that both have become

What is unified for a proposal is undone by the caller if a rule refuses it.
"""

import itertools
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import ENDING, PRIMS, Kind
from tpu_inductor.regions.factors import (
    Dims,
    Factor,
    Mismatch,
    Unifier,
    flat,
    repeats,
)
from tpu_inductor.regions.groups import Facts, Group, Late, build_group, join_facts
from tpu_inductor.regions.wiring import Wiring
from tpu_inductor.streams.stream import Stream, stream_rows
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class Context:
    """What all joins of one graph share."""

    wiring: Wiring
    target: TpuTarget
    unifier: Unifier


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where two groups meet: outer values that both read, and values that one makes for the other.

    Of those, `leaving` are needed by nobody else, `read` are read as they are, not a view of them.
    """

    shared: tuple[Var, ...]
    read: tuple[Var, ...]
    leaving: tuple[Var, ...]

    @property
    def saved_bytes(self) -> int:
        """Bytes that need not be moved if the two groups were one."""
        return sum(v.type.nbytes for v in (*self.shared, *self.read, *self.leaving))


def find_boundary(wiring: Wiring, one: Group, other: Group) -> Boundary:
    """Looks at what the smaller group reads and makes."""
    small, large = sorted((one, other), key=lambda g: len(g.members))
    met = [
        (v, small)
        for v in small.uses
        if v in wiring.producer and wiring.producer[v] in large.compute
    ]
    met += [(v, large) for v in small.made() if v in large.uses]
    return Boundary(
        tuple(v for v in small.reads if v in large.reads),
        tuple(v for v, user in met if v in user.reads),
        tuple(
            v
            for v, _ in met
            if v not in wiring.returned and one.uses[v] + other.uses[v] == len(wiring.users[v])
        ),
    )


@dataclass(frozen=True)
class Proposal:
    """Groups as one kernel: their facts together, and what `leaving` values leave to the outside.

    `parts` are two groups, the larger first, or one that is judged alone. `crossing` are the values
    that one part has and the other reads, or the results of what ends axes in a group alone.
    `flows` says that one part reads what the other computes; `twins` are the views that both hold.
    """

    context: Context
    parts: tuple[Group, ...]
    facts: Facts
    crossing: tuple[Var, ...]
    flows: bool = False
    twins: tuple[int, ...] = ()
    leaving: tuple[Var, ...] = ()

    @staticmethod
    def alone(context: Context, group: Group, flows: bool = False) -> "Proposal":
        """One group as it is, factorised as a whole."""
        eqns = context.wiring.graph.eqns
        ends = (eqns[i] for i in group.compute if PRIMS[eqns[i].prim].kind in ENDING)
        crossing = tuple(v for e in ends for v in e.outputs)
        return Proposal(context, (group,), group.facts, crossing, flows)

    @property
    def streams(self) -> bool:
        return any(part.streams for part in self.parts)

    @property
    def target(self) -> TpuTarget:
        return self.context.target

    @cached_property
    def every(self) -> frozenset[Dims]:
        """All distinct dimensions of values inside and of readings of outer ones."""
        return self.facts.values.union(self.facts.accesses)

    @property
    def factors(self) -> frozenset[Factor]:
        return self.facts.factors

    @property
    def parallel(self) -> frozenset[Factor]:
        """The factors over which results are independent."""
        return self.factors - self.facts.reduced - self.facts.contracted

    @cached_property
    def outputs(self) -> dict[Dims, int]:
        """How many values of the same dimensions are needed outside."""
        found: dict[Dims, int] = {}
        for part in self.parts:
            for dims, some in part.outputs.items():
                here = self._resolved(dims)
                found[here] = found.get(here, 0) + len(some)
        for v in self.leaving:
            found[self.dims(v)] -= 1
        return {dims: n for dims, n in found.items() if n}

    def first_output(self, dims: Collection[Dims]) -> Var:
        """The first value of any of these dimensions that is needed outside."""
        producer = self.context.wiring.producer
        some = (v for part in self.parts for v in part.made() if v not in self.leaving)
        return min((v for v in some if self.dims(v) in dims), key=producer.__getitem__)

    def dims(self, value: Var) -> Dims:
        """The dimensions of a value that is made inside."""
        return self._resolved(
            next(part.values[value] for part in self.parts if value in part.values)
        )

    def _resolved(self, dims: Dims) -> Dims:
        return self.context.unifier.resolve_dims(dims)

    def _has(self, index: int) -> bool:
        return any(index in part.members for part in self.parts)

    # -- along the edges of the graph ---------------------------------------------
    @cached_property
    def late(self) -> Late:
        """What is computed from a reduction or a contraction, of all parts together."""
        eqns = self.context.wiring.graph.eqns
        dims = {self.dims(v) for i in self.newly_late for v in eqns[i].outputs}
        dims.update(self._resolved(d) for part in self.parts for d in part.late.dims)
        reduces = any(PRIMS[eqns[i].prim].kind is Kind.REDUCE for i in self.newly_late)
        return Late(frozenset(dims), reduces or any(part.late.reduces for part in self.parts))

    @cached_property
    def newly_late(self) -> set[int]:
        """The equations that follow a reduction or a contraction of another part."""
        wiring = self.context.wiring
        found: set[int] = set()
        todo = [v for v in self.crossing if self._ends_or_is_late(wiring.producer[v])]
        while todo:
            for i in wiring.readers.get(todo.pop(), ()):
                if i not in found and self._has(i) and not self._was_late(i):
                    found.add(i)
                    todo.extend(wiring.graph.eqns[i].outputs)
        return found

    def _ends_or_is_late(self, index: int) -> bool:
        kind = PRIMS[self.context.wiring.graph.eqns[index].prim].kind
        return kind in ENDING or self._was_late(index)

    def _was_late(self, index: int) -> bool:
        return any(index in part.late_eqns for part in self.parts)

    def behind(self, value: Var) -> list[int]:
        """The equations inside that lead to this value, in order."""
        wiring = self.context.wiring
        found: set[int] = set()
        todo = [value]
        while todo:
            i = wiring.producer.get(todo.pop())
            if i is not None and i not in found and self._has(i):
                found.add(i)
                todo.extend(wiring.graph.eqns[i].operands)
        return sorted(found)

    def stream(self) -> Stream | Reject:
        """The equations inside as one pass over blocks of the axes that they reduce."""
        wiring = self.context.wiring
        members = sorted(set[int]().union(*(part.members for part in self.parts)))
        eqns = tuple(wiring.graph.eqns[i] for i in members)
        made = {v for eqn in eqns for v in eqn.outputs}
        inputs = dict.fromkeys(v for eqn in eqns for v in eqn.operands if v not in made)
        outputs = wiring.outputs(set[int]().union(*(part.compute for part in self.parts)))
        return stream_rows(eqns, tuple(inputs), outputs)

    # -- what is read from outside ------------------------------------------------
    def shares(self) -> bool:
        """Whether some outer value is read twice, over every axis, and both readings are one."""
        met = [v for v in self.parts[-1].reads if v in self.parts[0].reads]
        every = (v for part in self.parts for v in part.reads)
        return any(map(self._is_read_twice, itertools.chain(met, every)))

    def _is_read_twice(self, value: Var) -> bool:
        counts = {} if value in self.crossing else self.count_readings(value)
        return any(n > 1 and flat(dims) == self.factors for dims, n in counts.items())

    def count_readings(self, value: Var) -> Counter[Dims]:
        """The readings of an outer value, those by twins counted once."""
        found: Counter[Dims] = Counter()
        for part in self.parts:
            for dims, n in part.reads.get(value, Counter[Dims]()).items():
                found[self._resolved(dims)] += n
        for i in self.twins if value in self.parts[0].reads else ():
            if value in self.context.wiring.graph.eqns[i].operands:
                found[self._resolved(self.parts[0].readings[i, 0])] -= 1
        return +found

    def accept(self, version: int) -> Group:
        """The group that the parts become: the smaller one is added to the larger."""
        large, *smaller = self.parts
        for small in smaller:
            self._add(large, small)
        large.facts, large.late, large.version = self.facts, self.late, version
        large.late_eqns |= self.newly_late
        large.streams = self.streams
        return large

    def _add(self, large: Group, small: Group) -> None:
        for v in small.reads:
            large.reads[v] = self.count_readings(v)
        for v in self.crossing:
            del large.reads[v]
        large.compute |= small.compute
        large.members |= small.members
        large.values |= small.values
        large.readings |= small.readings
        large.uses.update(small.uses)
        large.late_eqns |= small.late_eqns
        large.outputs = self._join_outputs()

    def _join_outputs(self) -> dict[Dims, dict[Var, None]]:
        found: dict[Dims, dict[Var, None]] = {}
        for part in self.parts:
            for dims, some in part.outputs.items():
                other = found.setdefault(self._resolved(dims), some)
                if other is not some:
                    other.update(some)
        for v in self.leaving:
            del found[self.dims(v)][v]
        return found


def join_groups(context: Context, one: Group, other: Group) -> Proposal | Reject:
    """Both groups on trial as one. Rejects what has no common iteration space.

    Where they do not fit as they stand, all of it is factorised again: readings that were made
    one for the sake of fewer reads may be two in a larger group.
    """
    wiring, unifier = context.wiring, context.unifier
    small, large = sorted((one, other), key=lambda g: len(g.members))
    boundary = find_boundary(wiring, one, other)
    flows = bool(boundary.read)
    mark = unifier.mark()
    try:
        crossing = _unify_values(unifier, large, small)
    except Mismatch:
        crossing = None
    every = {*one.facts.values, *one.facts.accesses, *other.facts.values, *other.facts.accesses}
    if crossing is None or any(repeats(unifier.resolve_dims(dims)) for dims in every):
        unifier.undo(mark)
        compute, members = one.compute | other.compute, one.members | other.members
        group = build_group(wiring, unifier, compute, members - compute)
        return group if isinstance(group, Reject) else Proposal.alone(context, group, flows)
    _share_readings(unifier, boundary.shared, large, small, every)
    twins = tuple(i for i in small.members if i in large.members)
    removed = _removed(wiring, large, small, crossing, twins)
    facts = join_facts(unifier, one.facts, other.facts, removed)
    return Proposal(context, (large, small), facts, crossing, flows, twins, boundary.leaving)


def _unify_values(unifier: Unifier, large: Group, small: Group) -> tuple[Var, ...]:
    """Makes one the dimensions of values that one group has and the other has too, or reads.

    Returns those that are read. Raises Mismatch.
    """
    crossing: list[Var] = []
    for v, dims in small.values.items():
        if v in large.values:
            unifier.unify_dims(large.values[v], dims)
        elif v in large.reads:
            crossing.append(v)
            for reading in large.reads[v]:
                unifier.unify_dims(reading, dims)
    for v in small.reads:
        if v in large.values:
            crossing.append(v)
            for reading in small.reads[v]:
                unifier.unify_dims(large.values[v], reading)
    return tuple(crossing)


def _share_readings(
    unifier: Unifier, shared: tuple[Var, ...], large: Group, small: Group, every: set[Dims]
) -> None:
    """Unifies readings of one outer value where nothing forbids it, so that it is read once."""
    for v in shared:
        for reading in small.reads[v]:
            others = large.reads[v]
            here = unifier.resolve_dims(reading)
            if all(unifier.resolve_dims(other) != here for other in others):
                any(unifier.share(other, reading, every) for other in others)


def _removed(
    wiring: Wiring, large: Group, small: Group, crossing: tuple[Var, ...], twins: tuple[int, ...]
) -> Counter[Dims]:
    """The readings that both groups together do not have: of what is inside, and by twins."""
    removed: Counter[Dims] = Counter()
    for v in crossing:
        removed.update((large if v in large.reads else small).reads[v])
    for i in twins:
        for v in wiring.graph.eqns[i].operands:
            if v in large.reads and v in small.reads:
                removed[small.readings[i, 0]] += 1
    return removed
