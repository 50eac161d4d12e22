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
from typing import NamedTuple

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import TensorType


class Factor(NamedTuple):
    """One iteration axis: an identity within its region, and an extent above 1.

    A tuple, since growth looks factors up by the million.
    """

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
    """Union-find over factors in which a factor may also split into a row-major product.

    What is unified after a `mark` can be undone: a join of two groups is tried before it is made.
    """

    ids: Iterator[int] = field(default_factory=itertools.count)
    parts: dict[Factor, tuple[Factor, ...]] = field(
        default_factory=dict[Factor, tuple[Factor, ...]]
    )
    log: list[tuple[Factor, tuple[Factor, ...] | None]] = field(
        default_factory=list[tuple[Factor, tuple[Factor, ...] | None]]
    )

    def fresh(self, type: TensorType) -> Dims:
        """New factors for the dimensions of a value, none for those of extent 1."""
        return tuple((self.fresh_factor(n),) if n > 1 else () for n in type.dims)

    def fresh_factor(self, size: int) -> Factor:
        return Factor(next(self.ids), size)

    def resolve(self, factors: Iterable[Factor]) -> tuple[Factor, ...]:
        """The factors that now stand for `factors`."""
        factors, known = tuple(factors), self.parts
        out: list[Factor] = []
        for factor in factors:
            parts = known.get(factor)
            if parts is None:
                out.append(factor)
            elif len(parts) == 1 and parts[0] not in known:
                out.append(parts[0])
            else:
                found = self.resolve(parts)
                if found != parts:
                    # Kept, or the chain grows with every equation of a region.
                    self._set(factor, found)
                out.extend(found)
        return tuple(out)

    def resolve_dims(self, dims: Dims) -> Dims:
        """`resolve` for every dimension; mostly nothing has changed."""
        parts = self.parts
        for dim in dims:
            for factor in dim:
                if factor in parts:
                    return tuple([self.resolve(dim) for dim in dims])
        return dims

    def unify(self, left: Iterable[Factor], right: Iterable[Factor]) -> None:
        """Makes two products one, splitting where extents differ. Raises Mismatch.

        Of factors with equal extents those of `left` stay.
        """
        a, b = list(self.resolve(left)), list(self.resolve(right))
        if a == b:
            return
        while a and b:
            x, y = a.pop(0), b.pop(0)
            if x == y:
                continue
            if x.size == y.size:
                self._set(y, (x,))
            else:
                self._split(a, b, x, y)
            if a or b:
                a, b = list(self.resolve(a)), list(self.resolve(b))
        if a or b:
            raise Mismatch

    def unify_dims(self, left: Dims, right: Dims) -> None:
        """Makes two values' dimensions one. Raises Mismatch."""
        for a, b in zip(left, right, strict=True):
            self.unify(a, b)

    def share(self, left: Dims, right: Dims, every: Iterable[Dims]) -> bool:
        """Makes two readings one, if no value of `every` is then needed along its diagonal."""
        mark = self.mark()
        try:
            self.unify_dims(left, right)
        except Mismatch:
            self.undo(mark)
            return False
        if any(repeats(self.resolve_dims(dims)) for dims in every):
            self.undo(mark)
            return False
        return True

    def mark(self) -> int:
        """A point to which `undo` can return."""
        return len(self.log)

    def undo(self, mark: int) -> None:
        """Takes back what has been unified since `mark`."""
        while len(self.log) > mark:
            factor, parts = self.log.pop()
            if parts is None:
                del self.parts[factor]
            else:
                self.parts[factor] = parts

    def keep(self) -> None:
        """Makes lasting what has been unified: no earlier mark can be returned to."""
        self.log.clear()

    def _set(self, factor: Factor, parts: tuple[Factor, ...]) -> None:
        self.log.append((factor, self.parts.get(factor)))
        self.parts[factor] = parts

    def _split(self, a: list[Factor], b: list[Factor], x: Factor, y: Factor) -> None:
        """Splits the larger of x and y by the smaller; the rest goes back to its list."""
        small, large, rest_of = (y, x, a) if x.size > y.size else (x, y, b)
        if large.size % small.size:
            raise Mismatch
        rest = self.fresh_factor(large.size // small.size)
        self._set(large, (small, rest))
        rest_of.insert(0, rest)


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


def flat(dims: Dims) -> frozenset[Factor]:
    """The factors of all dimensions together."""
    return frozenset([f for dim in dims for f in dim])


def repeats(dims: Dims) -> bool:
    """Whether one factor is in two places: a value's diagonal is needed, not the value."""
    return len(flat(dims)) != sum(map(len, dims))


def factorise(
    eqns: tuple[Eqn, ...], rules: Mapping[str, FactorRule], unifier: Unifier | None = None
) -> Factoring | Reject:
    """The factors of `eqns`, in their order. Rejects what has no common iteration space.

    With a `unifier` of other sets of equations these can be joined later.
    """
    unifier = unifier or Unifier()
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
                fresh = accesses[Access(index, slot)] = unifier.fresh(operand.type)
                operands.append(fresh)
        for out in eqn.outputs:
            values[out] = unifier.fresh(out.type)
        try:
            ended = rules[eqn.prim](unifier, eqn, tuple(operands), values[eqn.outputs[0]])
        except Mismatch:
            return Reject(f"{eqn.prim} mixes dimensions that have no common factors")
        closed.setdefault(PRIMS[eqn.prim].kind, []).extend(ended)
    every = {unifier.resolve_dims(dims) for dims in (*values.values(), *accesses.values())}
    if any(map(repeats, every)):
        return Reject(DIAGONAL)
    _share_accesses(unifier, eqns, accesses, every)
    return _factoring(unifier, values, accesses, closed)


DIAGONAL = "one value is needed along two of its own dimensions at once"


def _factoring(
    unifier: Unifier,
    values: dict[Var, Dims],
    accesses: dict[Access, Dims],
    closed: dict[Kind, list[Factor]],
) -> Factoring:
    return Factoring(
        {v: unifier.resolve_dims(dims) for v, dims in values.items()},
        {a: unifier.resolve_dims(dims) for a, dims in accesses.items()},
        frozenset(unifier.resolve(closed[Kind.REDUCE])),
        frozenset(unifier.resolve(closed[Kind.DOT])),
    )


def _share_accesses(
    unifier: Unifier, eqns: tuple[Eqn, ...], accesses: dict[Access, Dims], every: set[Dims]
) -> None:
    """Unifies readings of one outer value where nothing forbids it, so that it is read once."""
    first: dict[Value, list[Dims]] = {}
    for access, dims in accesses.items():
        others = first.setdefault(eqns[access.eqn].inputs[access.slot], [])
        resolved = unifier.resolve_dims(dims)
        if any(unifier.resolve_dims(other) == resolved for other in others):
            continue
        if not any(unifier.share(other, dims, every) for other in others):
            others.append(dims)
