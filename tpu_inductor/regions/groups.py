"""Groups of equations that grow into regions, with what a join needs to know of them.

    build_group   equations          --> Group        factorised as a whole
    join_groups   two groups         --> Proposal     unified where one reads what the other has
    Proposal.accept                  --> Group        the smaller becomes part of the larger

Many values of a group have the same dimensions, so that what join rules ask is kept by distinct
dimensions, and a join costs what the smaller group and its boundary are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import ARG_REDUCE, PRIMS, Kind
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.factors import Access, Dims, Factor, Factoring, Unifier, factorise
from tpu_inductor.regions.wiring import Wiring

Reading = tuple[int, int]
"""One reading of a value: by an equation of the graph, as its operand in a slot."""


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction, and the dimensions of its operands and its result."""

    index: int
    attrs: A.Dot
    lhs: Dims
    rhs: Dims
    out: Dims


@dataclass(frozen=True, slots=True)
class Late:
    """The dimensions of what is computed from a reduction or a contraction.

    `reduces` says whether that is reduced again.
    """

    dims: frozenset[Dims] = frozenset()
    reduces: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What equations have in common as one kernel, by the distinct dimensions of their values.

    `values` are made inside. `accesses` counts the readings of outer values. `factors` are those of
    both. `reductions` has the
    first equation that reduces values of some dimensions to others, `searches` says whether one
    looks for an index.
    """

    values: frozenset[Dims]
    accesses: Mapping[Dims, int]
    factors: frozenset[Factor]
    reduced: frozenset[Factor]
    contracted: frozenset[Factor]
    dots: tuple[Product, ...]
    reductions: Mapping[tuple[Dims, Dims], int]
    searches: bool


@dataclass(slots=True)
class Group:
    """Equations that are one kernel so far. Factors are those of one unifier for all groups.

    `compute` are indices of equations, `members` those and the closure. `reads` counts, for every
    outer value, the readings along the same dimensions; `uses` the computing equations that read a
    base, through views or not. `outputs` are the values needed outside, by their dimensions.
    `late_eqns` follow a reduction or a contraction. `version` tells a group from what it was
    before it grew. What `streams` goes over blocks of an axis that one contraction makes and
    another ends.
    """

    version: int
    compute: set[int]
    members: set[int]
    values: dict[Var, Dims]
    readings: dict[Reading, Dims]
    reads: dict[Var, Counter[Dims]]
    uses: Counter[Var]
    outputs: dict[Dims, dict[Var, None]]
    facts: Facts
    late: Late = Late()
    late_eqns: set[int] = field(default_factory=set[int])
    streams: bool = False

    def made(self) -> Iterator[Var]:
        """The computed values that are needed outside."""
        for some in self.outputs.values():
            yield from some


def build_group(
    wiring: Wiring, unifier: Unifier, compute: Iterable[int], closure: Iterable[int]
) -> Group | Reject:
    """The group of these equations, factorised as a whole."""
    compute = set(compute)
    members = compute.union(closure)
    order = sorted(members)
    eqns = tuple(wiring.graph.eqns[i] for i in order)
    factoring = factorise(eqns, FACTOR_RULES, unifier)
    if isinstance(factoring, Reject):
        return factoring
    readings = {(order[a.eqn], a.slot): dims for a, dims in factoring.accesses.items()}
    facts = _facts_of(order, eqns, factoring)
    return assemble_group(wiring, compute, members, factoring.values, readings, facts)


def assemble_group(
    wiring: Wiring,
    compute: set[int],
    members: set[int],
    values: dict[Var, Dims],
    readings: dict[Reading, Dims],
    facts: Facts,
) -> Group:
    """The group of equations of which all is known that their factors tell."""
    reads: dict[Var, Counter[Dims]] = {}
    for (i, slot), dims in readings.items():
        reads.setdefault(cast(Var, wiring.graph.eqns[i].inputs[slot]), Counter())[dims] += 1
    outputs: dict[Dims, dict[Var, None]] = {}
    for v in wiring.outputs(compute):
        outputs.setdefault(values[v], {})[v] = None
    uses = Counter(v for i in compute for v in wiring.bases[i])
    return Group(0, compute, members, values, readings, reads, uses, outputs, facts)


def _facts_of(order: list[int], eqns: tuple[Eqn, ...], factoring: Factoring) -> Facts:
    kinds = [PRIMS[e.prim].kind for e in eqns]
    reductions: dict[tuple[Dims, Dims], int] = {}
    for n, (i, eqn) in enumerate(zip(order, eqns, strict=True)):
        if kinds[n] is Kind.REDUCE:
            ends = factoring.of(eqns, n, 0), factoring.values[eqn.out]
            reductions.setdefault(ends, i)
    dots = (
        Product(
            order[n],
            cast(A.Dot, eqns[n].attrs),
            factoring.of(eqns, n, 0),
            factoring.of(eqns, n, 1),
            factoring.values[eqns[n].out],
        )
        for n, kind in enumerate(kinds)
        if kind is Kind.DOT
    )
    return Facts(
        frozenset(factoring.values.values()),
        Counter(factoring.accesses.values()),
        factoring.factors,
        factoring.reduced,
        factoring.contracted,
        tuple(dots),
        reductions,
        any(e.prim in ARG_REDUCE for e in eqns),
    )


def rename_dims(dims: Dims, names: Mapping[Factor, Factor]) -> Dims:
    return tuple([tuple([names[f] for f in dim]) for dim in dims])


def move_facts(
    facts: Facts, names: Mapping[Factor, Factor], places: Mapping[int, int] | Sequence[int]
) -> Facts:
    """The facts of other equations, for each of these one in its place, with factors of theirs."""

    def of(dims: Dims) -> Dims:
        return rename_dims(dims, names)

    return Facts(
        frozenset(map(of, facts.values)),
        Counter({of(dims): n for dims, n in facts.accesses.items()}),
        frozenset(names[f] for f in facts.factors),
        frozenset(names[f] for f in facts.reduced),
        frozenset(names[f] for f in facts.contracted),
        tuple(
            Product(places[p.index], p.attrs, of(p.lhs), of(p.rhs), of(p.out)) for p in facts.dots
        ),
        {(of(a), of(b)): places[i] for (a, b), i in facts.reductions.items()},
        facts.searches,
    )


def join_facts(unifier: Unifier, one: Facts, other: Facts, removed: Counter[Dims]) -> Facts:
    """The facts of two groups together, without the readings `removed`, as now unified."""
    of = unifier.resolve_dims
    accesses: Counter[Dims] = Counter()
    for facts in (one, other):
        for dims, n in facts.accesses.items():
            accesses[of(dims)] += n
    for dims, n in removed.items():
        accesses[of(dims)] -= n
    reductions: dict[tuple[Dims, Dims], int] = {}
    for facts in (one, other):
        for (inside, out), i in facts.reductions.items():
            ends = of(inside), of(out)
            reductions[ends] = min(i, reductions.get(ends, i))
    return Facts(
        frozenset(of(dims) for facts in (one, other) for dims in facts.values),
        +accesses,
        frozenset(unifier.resolve((*one.factors, *other.factors))),
        frozenset(unifier.resolve((*one.reduced, *other.reduced))),
        frozenset(unifier.resolve((*one.contracted, *other.contracted))),
        tuple(
            Product(p.index, p.attrs, of(p.lhs), of(p.rhs), of(p.out))
            for p in (*one.dots, *other.dots)
        ),
        reductions,
        one.searches or other.searches,
    )


def factoring_of(wiring: Wiring, unifier: Unifier, group: Group) -> Factoring:
    """The factors of a group, numbered in the order in which its equations meet them."""
    numbers: dict[Factor, Factor] = {}

    def of(dims: Dims) -> Dims:
        return tuple(tuple(number(f) for f in unifier.resolve(dim)) for dim in dims)

    def number(factor: Factor) -> Factor:
        return numbers.setdefault(factor, Factor(len(numbers), factor.size))

    values: dict[Var, Dims] = {}
    accesses: dict[Access, Dims] = {}
    for n, i in enumerate(sorted(group.members)):
        eqn = wiring.graph.eqns[i]
        for slot, v in enumerate(eqn.inputs):
            if isinstance(v, Var) and v not in group.values:
                accesses[Access(n, slot)] = of(group.readings[i, slot])
        values.update((v, of(group.values[v])) for v in eqn.outputs)
    facts = group.facts
    reduced, contracted = unifier.resolve(facts.reduced), unifier.resolve(facts.contracted)
    return Factoring(
        values, accesses, frozenset(map(number, reduced)), frozenset(map(number, contracted))
    )
