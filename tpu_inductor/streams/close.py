"""Closes the axis: a reduction or contraction becomes one closing equation per hoisted term.

    o = dot(div(e, l), v)   -->   acc = dot(e, v); o = div(acc, l)

Sums of 16-bit floats are kept in float32. A reduction over more axes closes the streamed one first.
"""

from dataclasses import dataclass, replace
from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.streams.axis import NotStreamable
from tpu_inductor.streams.hoist import Step, Term, Terms, split_terms
from tpu_inductor.streams.rewrite import Rewriter

_NARROW = (DType.BF16, DType.F16, DType.F8E4M3, DType.F8E5M2)
MERGES = {
    "reduce_sum": "add",
    "dot": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_prod": "mul",
}
"""The pointwise primitive that merges the results of two blocks."""


def close_axis(rw: Rewriter, index: int) -> None:
    """Appends what equation `index`, which closes the axis, becomes."""
    eqn = rw.use.eqns[index]
    if eqn.prim not in MERGES:
        raise NotStreamable(
            f"not streamable: {eqn.prim} is not merged between blocks - {eqn.origin.place}"
        )
    result = _close_dot(rw, index) if eqn.prim == "dot" else _close_reduction(rw, index)
    if result != eqn.out:
        rw.rows[eqn.out] = rw.convert(eqn, result, eqn.out.type.dtype)


# -- reductions -------------------------------------------------------------------------
def _close_reduction(rw: Rewriter, index: int) -> Value:
    use, eqn = rw.use, rw.use.eqns[index]
    closed = cast(A.Dims, eqn.attrs).dims
    along = use.along(use.dims(index, 0))
    rest = tuple(d - sum(a < d for a in along) for d in closed if d not in along)
    if not use.varies(index, 0):
        return _close_row(rw, index, rest)
    operand = rw.wide(index, 0)
    dtype = eqn.out.type.dtype
    terms: Terms = (Term(operand),)
    if eqn.prim == "reduce_sum" and dtype.is_float:
        terms = split_terms(rw, index, 0)
        dtype = DType.F32 if dtype in _NARROW else dtype
    if not rest and terms == (Term(operand),) and dtype is eqn.out.type.dtype:
        return rw.keep_closing(replace(eqn, inputs=(operand,)), along)
    closer = _Reduction(rw, eqn, along, dtype)
    result = _add_terms(rw, eqn, [(t, closer.finish(t)) for t in terms])
    return rw.row_op(eqn, eqn.prim, result, attrs=A.Dims(rest)) if rest else result


def _close_row(rw: Rewriter, index: int, rest: tuple[int, ...]) -> Value:
    """A reduction along the axis of what only repeats there."""
    use, eqn = rw.use, rw.use.eqns[index]
    if eqn.prim == "reduce_prod":
        raise NotStreamable(f"not streamable: a product of repeated values - {eqn.origin.place}")
    along = use.along(use.dims(index, 0))
    value = _drop_dims(rw, eqn, rw.row(eqn.inputs[0]), along)
    if eqn.prim == "reduce_sum":
        value = rw.row_op(eqn, "mul", value, rw.builder.lit(use.extent, value.type.dtype))
    return rw.row_op(eqn, eqn.prim, value, attrs=A.Dims(rest)) if rest else value


def _drop_dims(rw: Rewriter, eqn: Eqn, row: Value, along: tuple[int, ...]) -> Value:
    shape = tuple(n for d, n in enumerate(row.type.shape) if d not in along)
    return rw.row_op(eqn, "reshape", row, attrs=A.Reshape(shape))


@dataclass(frozen=True, slots=True)
class _Reduction:
    """Closes one term of a reduction in `dtype`."""

    rw: Rewriter
    eqn: Eqn
    along: tuple[int, ...]
    dtype: DType

    def finish(self, term: Term) -> Value:
        rw, eqn = self.rw, self.eqn
        steps = [(step, _drop_dims(rw, eqn, row, self.along)) for step, row in term.steps]
        if term.base is None:
            return _take_steps(rw, eqn, Lit(float(rw.use.extent), self.dtype), steps)
        base: Value = rw.convert(eqn, term.base, self.dtype)
        if isinstance(base, Lit):
            ones = rw.ones(eqn, eqn.inputs[0].type.shape, self.dtype)
            base = rw.wide_op(eqn, "mul", ones, base)
        kept = rw.close(eqn, eqn.prim, base, attrs=A.Dims(self.along), along=self.along)
        shown = _shown(rw, eqn, term, kept, self.along)
        return _take_steps(rw, eqn, kept, steps, shown)


def _shown(rw: Rewriter, eqn: Eqn, term: Term, kept: Var, along: tuple[int, ...]) -> Var | None:
    """Where a masked sum has a contributor: elsewhere it is what it is, whatever the tags are."""
    moves = term.steps or (isinstance(term.base, Var) and term.base in rw.late)
    if not (term.masks and moves):
        return None
    if term.counts and term.base not in rw.late:
        shown = rw.row_op(eqn, "ne", kept, rw.builder.lit(0, kept.type.dtype))
    else:
        mask = term.masks[0]
        for other in term.masks[1:]:
            mask = rw.wide_op(eqn, "and", mask, other)
        shown = rw.close(eqn, "reduce_or", mask, attrs=A.Dims(along), along=along)
    assert isinstance(shown, Var)
    return shown


# -- contractions -----------------------------------------------------------------------
def _close_dot(rw: Rewriter, index: int) -> Value:
    use, eqn = rw.use, rw.use.eqns[index]
    attrs = cast(A.Dot, eqn.attrs)
    if not (use.varies(index, 0) or use.varies(index, 1)):
        small = rw.row_op(eqn, "dot", *map(rw.row, eqn.inputs), attrs=attrs)
        return rw.row_op(eqn, "mul", small, rw.builder.lit(use.extent, small.type.dtype))
    operands = rw.wide(index, 0), rw.wide(index, 1)
    along = use.along(use.dims(index, 0))
    pure = along == tuple(sorted(attrs.lhs_contract))
    sides = [
        split_terms(rw, index, slot) if pure and attrs.dtype.is_float else (Term(v),)
        for slot, v in enumerate(operands)
    ]
    narrow = attrs.dtype in _NARROW
    plain = len(sides[0]) == len(sides[1]) == 1 and all(
        terms[0].is_plain and terms[0].base == v for terms, v in zip(sides, operands, strict=True)
    )
    if plain and not narrow:
        return rw.keep_closing(replace(eqn, inputs=operands), along)
    attrs = replace(attrs, dtype=DType.F32) if narrow else attrs
    closer = _Contraction(rw, eqn, attrs, along)
    pairs = [(a, b) for a in sides[0] for b in sides[1]]
    return _add_terms(
        rw,
        eqn,
        [(replace(a, negative=a.negative != b.negative), closer.finish(a, b)) for a, b in pairs],
    )


@dataclass(frozen=True, slots=True)
class _Contraction:
    """Closes one pair of terms of a contraction."""

    rw: Rewriter
    eqn: Eqn
    attrs: A.Dot
    along: tuple[int, ...]

    def finish(self, lhs: Term, rhs: Term) -> Value:
        rw, eqn = self.rw, self.eqn
        operands = self._tensor(lhs.base, 0), self._tensor(rhs.base, 1)
        kept = rw.close(eqn, "dot", *operands, attrs=self.attrs, along=self.along)
        result: Value = kept
        for side, term in enumerate((lhs, rhs)):
            steps = [(step, self.align(row, side)) for step, row in term.steps]
            shown = self._shown(term, kept, side)
            result = _take_steps(rw, eqn, result, steps, shown, kept)
        return result

    def _shown(self, term: Term, kept: Var, side: int) -> Var | None:
        contract = self.attrs.lhs_contract if side == 0 else self.attrs.rhs_contract
        along = tuple(sorted(contract))
        shown = _shown(self.rw, self.eqn, replace(term, counts=False), kept, along)
        if shown is None:
            return None
        extents = enumerate(self.eqn.inputs[side].type.dims)
        small = tuple(1 if d in along else n for d, n in extents)
        row = self.rw.row_op(self.eqn, "reshape", shown, attrs=A.Reshape(small))
        return cast(Var, self.align(row, side))

    def _tensor(self, base: Value | None, side: int) -> Var:
        operand = self.eqn.inputs[side].type
        if isinstance(base, Var):
            return base
        ones = self.rw.ones(self.eqn, operand.shape, operand.dtype)
        return ones if base is None else self.rw.wide_op(self.eqn, "mul", ones, base)

    def align(self, row: Value, side: int) -> Value:
        """A row value of one operand, in the shape of the result."""
        return align_to_dot(self.rw, self.eqn, self.attrs, row, side)


def align_to_dot(rw: Rewriter, eqn: Eqn, attrs: A.Dot, row: Value, side: int) -> Value:
    """A value of an operand's shape with extent 1 where it contracts, in the result's shape."""
    batch = attrs.lhs_batch if side == 0 else attrs.rhs_batch
    contract = attrs.lhs_contract if side == 0 else attrs.rhs_contract
    free = attrs.free("lhs" if side == 0 else "rhs", row.type.rank)
    turned = rw.row_op(eqn, "transpose", row, attrs=A.Transpose((*batch, *free, *contract)))
    kept = turned.type.shape[: len(batch) + len(free)]
    flat = rw.row_op(eqn, "reshape", turned, attrs=A.Reshape(kept))
    rank, n = eqn.out.type.rank, len(batch)
    places = range(n, n + len(free)) if side == 0 else range(rank - len(free), rank)
    spread = A.Broadcast(eqn.out.type.shape, (*range(n), *places))
    return rw.row_op(eqn, "broadcast", flat, attrs=spread)


# -- after the sum ------------------------------------------------------------------------
def _take_steps(
    rw: Rewriter,
    eqn: Eqn,
    x: Value,
    steps: list[Step],
    shown: Var | None = None,
    kept: Var | None = None,
) -> Value:
    start, dtype = x, x.type.dtype
    if shown is not None:
        rw.shown[cast(Var, kept or x)] = shown
    for step, row in steps:
        if step in ("mul", "div"):
            x = rw.row_op(eqn, step, x, rw.convert(eqn, row, dtype))
        else:
            zero = rw.builder.lit(0, dtype)
            branches = (x, zero) if step == "keep_if" else (zero, x)
            x = rw.row_op(eqn, "select", row, *branches)
    return rw.row_op(eqn, "select", shown, x, start) if shown is not None and steps else x


def _add_terms(rw: Rewriter, eqn: Eqn, parts: list[tuple[Term, Value]]) -> Value:
    """The sum of finished terms, those that are added first."""
    total: Value | None = None
    for term, x in sorted(parts, key=lambda part: part[0].negative):
        if total is None:
            total = rw.row_op(eqn, "neg", x) if term.negative else x
        else:
            total = rw.row_op(eqn, "sub" if term.negative else "add", total, x)
    if total is None:
        raise NotStreamable(f"not streamable: a sum of nothing - {eqn.origin.place}")
    return total
