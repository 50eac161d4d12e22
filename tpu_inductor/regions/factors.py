"""Factors: the iteration axes that the dimensions of a set of equations have in common.

A dimension is a product of factors, row-major; extents of 1 have none. Equations relate the
dimensions of their operands and results (see factor_rules.py), and relating two dimensions of
different extent splits a factor:

    mm: f32[64,512] viewed as [2,32,512] and added to r: f32[2,32,512]
    --> factors a=2, b=32, c=512;  mm has dimensions (a b, c), r has (a, b, c)

Axes come from the equations alone, never from matching sizes: a square matrix added to its own
transpose would need one factor for both of its dimensions, and is refused.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Lit, Var
from tpu_inductor.graph.prims import PRIMS, Kind


@dataclass(frozen=True, slots=True)
class Factor:
    """One iteration axis: an identity within its region, and an extent above 1."""

    id: int
    size: int

    def __str__(self) -> str:
        return f"f{self.id}={self.size}"


Dims = tuple[tuple[Factor, ...], ...]
"""The factors of each dimension of a value."""


@dataclass(frozen=True, slots=True)
class Access:
    """One reading of a value from outside the region: by equation `eqn`, as its operand `slot`."""

    eqn: int
    slot: int


class Mismatch(Exception):
    """Two dimensions have no common refinement. Does not leave this package."""


@dataclass(slots=True)
class Unifier:
    """Union-find over factors in which a factor may also split into a row-major product."""

    ids: Iterator[int] = field(default_factory=itertools.count)
    parts: dict[Factor, tuple[Factor, ...]] = field(
        default_factory=dict[Factor, tuple[Factor, ...]]
    )

    def fresh(self, size: int) -> tuple[Factor, ...]:
        return (Factor(next(self.ids), size),) if size > 1 else ()

    def resolve(self, factors: Iterable[Factor]) -> tuple[Factor, ...]:
        """The factors that now stand for `factors`."""
        out: list[Factor] = []
        for factor in factors:
            parts = self.parts.get(factor)
            if parts is None:
                out.append(factor)
            else:
                found = self.resolve(parts)
                # Kept, or the chain grows with every equation of a region.
                self.parts[factor] = found
                out.extend(found)
        return tuple(out)

    def unify(self, left: Iterable[Factor], right: Iterable[Factor]) -> None:
        """Makes two products one, splitting where extents differ. Raises Mismatch."""
        a, b = list(self.resolve(left)), list(self.resolve(right))
        while a and b:
            x, y = a.pop(0), b.pop(0)
            if x == y:
                continue
            if x.size == y.size:
                self.parts[y] = (x,)
            else:
                self._split(a, b, x, y)
            a, b = list(self.resolve(a)), list(self.resolve(b))
        if a or b:
            raise Mismatch

    def _split(self, a: list[Factor], b: list[Factor], x: Factor, y: Factor) -> None:
        """Splits the larger of x and y by the smaller; the rest goes back to its list."""
        small, large, rest_of = (y, x, a) if x.size > y.size else (x, y, b)
        if large.size % small.size:
            raise Mismatch
        rest = Factor(next(self.ids), large.size // small.size)
        self.parts[large] = (small, rest)
        rest_of.insert(0, rest)

    def copy(self) -> "Unifier":
        return Unifier(self.ids, dict(self.parts))


@dataclass(frozen=True, slots=True)
class Factoring:
    """The factors of a set of equations.

    `values` has the dimensions of every value defined inside, `accesses` of every reading of a
    value defined outside; `reduced` and `contracted` are the factors closed by reductions and by
    a contraction.
    """

    values: dict[Var, Dims]
    accesses: dict[Access, Dims]
    reduced: frozenset[Factor]
    contracted: frozenset[Factor]

    @property
    def factors(self) -> frozenset[Factor]:
        every = itertools.chain(self.values.values(), self.accesses.values())
        return frozenset(f for dims in every for dim in dims for f in dim)

    @property
    def parallel(self) -> frozenset[Factor]:
        """The factors over which results are independent."""
        return self.factors - self.reduced - self.contracted

    def of(self, eqns: tuple[Eqn, ...], index: int, slot: int) -> Dims:
        """The dimensions of operand `slot` of equation `index`; none for a literal."""
        operand = eqns[index].inputs[slot]
        if isinstance(operand, Lit):
            return ()
        inside = self.values.get(operand)
        return self.accesses[Access(index, slot)] if inside is None else inside


FactorRule = Callable[[Unifier, Eqn, tuple[Dims, ...], Dims], tuple[Factor, ...]]


def factorise(eqns: tuple[Eqn, ...], rules: Mapping[str, FactorRule]) -> Factoring | Reject:
    """The factors of `eqns`, in their order. Rejects what has no common iteration space."""
    unifier = Unifier()
    values: dict[Var, Dims] = {}
    accesses: dict[Access, Dims] = {}
    closed: dict[Kind, list[Factor]] = {Kind.REDUCE: [], Kind.DOT: []}
    for index, eqn in enumerate(eqns):
        operands: list[Dims] = []
        for slot, operand in enumerate(eqn.inputs):
            if isinstance(operand, Lit):
                operands.append(())
            elif operand in values:
                operands.append(values[operand])
            else:
                fresh = tuple(unifier.fresh(n) for n in operand.type.dims)
                accesses[Access(index, slot)] = fresh
                operands.append(fresh)
        for out in eqn.outputs:
            values[out] = tuple(unifier.fresh(n) for n in out.type.dims)
        try:
            ended = rules[eqn.prim](unifier, eqn, tuple(operands), values[eqn.outputs[0]])
        except Mismatch:
            return Reject(f"{eqn.prim} mixes dimensions that have no common factors")
        closed.setdefault(PRIMS[eqn.prim].kind, []).extend(ended)
    if _repeats(unifier, (*values.values(), *accesses.values())):
        return Reject("one value is needed along two of its own dimensions at once")
    unifier = _share_accesses(unifier, eqns, values, accesses)
    return _factoring(unifier, values, accesses, closed)


def _factoring(
    unifier: Unifier,
    values: dict[Var, Dims],
    accesses: dict[Access, Dims],
    closed: dict[Kind, list[Factor]],
) -> Factoring:
    return Factoring(
        {v: _resolved(unifier, dims) for v, dims in values.items()},
        {a: _resolved(unifier, dims) for a, dims in accesses.items()},
        frozenset(unifier.resolve(closed[Kind.REDUCE])),
        frozenset(unifier.resolve(closed[Kind.DOT])),
    )


def _share_accesses(
    unifier: Unifier, eqns: tuple[Eqn, ...], values: dict[Var, Dims], accesses: dict[Access, Dims]
) -> Unifier:
    """Unifies readings of one outer value where nothing forbids it, so that it is read once."""
    first: dict[Var, list[Access]] = {}
    for access in accesses:
        var = eqns[access.eqn].inputs[access.slot]
        if not isinstance(var, Var):
            continue
        for other in first.get(var, []):
            if _resolved(unifier, accesses[other]) == _resolved(unifier, accesses[access]):
                break
            trial = unifier.copy()
            if _try_unify(trial, accesses[other], accesses[access]) and not _repeats(
                trial, (*values.values(), *accesses.values())
            ):
                unifier = trial
                break
        else:
            first.setdefault(var, []).append(access)
    return unifier


def _try_unify(unifier: Unifier, left: Dims, right: Dims) -> bool:
    try:
        for a, b in zip(left, right, strict=True):
            unifier.unify(a, b)
    except Mismatch:
        return False
    return True


def _resolved(unifier: Unifier, dims: Dims) -> Dims:
    return tuple(unifier.resolve(d) for d in dims)


def _repeats(unifier: Unifier, every: Iterable[Dims]) -> bool:
    """Whether some value has one factor in two places (its diagonal, not the value)."""
    for dims in every:
        flat = [f for dim in dims for f in unifier.resolve(dim)]
        if len(flat) != len(set(flat)):
            return True
    return False
