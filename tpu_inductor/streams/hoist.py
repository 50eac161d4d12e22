"""Takes what does not depend on the position out of sums along the axis.

    sum_k (e / l) * v              -->   sum_k(e * v) / l
    sum_k select(c, 0, p) * v      -->   select(c, 0, sum_k(p * v))
    sum_k (p - a * q) * v          -->   sum_k(p * v) - a * sum_k(q * v)

This is exact but for rounding of the same size as that of the terms. It is not done where it is
worse: the product of two differences cancels when it is written out ((x - mean)^2), and a narrowing
convert is passed only where the range stays (bfloat16), or of values in [0, 1].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.streams.action import constant_of
from tpu_inductor.streams.axis import NotStreamable
from tpu_inductor.streams.rewrite import Rewriter

Step = tuple[str, Value]
"""What is done to a sum afterwards: "mul", "div", "keep_if" or "keep_unless", and a row value."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of what is summed: `base` along the axis (None for 1), then `steps` of tags.

    It is 0 outside of `masks`. `counts` says that the base is 1 where they hold.
    """

    base: Value | None
    steps: tuple[Step, ...] = ()
    masks: tuple[Value, ...] = ()
    negative: bool = False
    counts: bool = False

    @property
    def is_plain(self) -> bool:
        return not (self.steps or self.masks or self.negative)


Terms = tuple[Term, ...]


def split_terms(rw: Rewriter, index: int, slot: int) -> Terms:
    """Operand `slot` of an equation as a sum of terms. Raises NotStreamable."""
    use, value = rw.use, rw.use.eqns[index].inputs[slot]
    if isinstance(value, Lit) or not use.is_late(value):
        return (Term(rw.wide(index, slot)),)
    if not use.varies(index, slot):
        return (Term(None, (("mul", rw.row(value)),)),)
    maker = use.eqns[use.producer[value]]
    rule = _RULES.get(maker.prim) if value.type.dtype.is_float else None
    found = rule(rw, use.producer[value]) if rule is not None else None
    return (Term(value),) if found is None else found


def _sum(rw: Rewriter, index: int) -> Terms | None:
    eqn = rw.use.eqns[index]
    left, right = split_terms(rw, index, 0), split_terms(rw, index, 1)
    plain = all(t.base is not None and not (t.steps or t.masks) for t in (*left, *right))
    if plain and rw.actions.is_repairable(eqn.out):
        return None
    return left + (_negated(right) if eqn.prim == "sub" else right)


def _negated(terms: Terms) -> Terms:
    return tuple(replace(t, negative=not t.negative) for t in terms)


def _negate(rw: Rewriter, index: int) -> Terms | None:
    terms = split_terms(rw, index, 0)
    return None if _are_plain(terms) else _negated(terms)


def _are_plain(terms: Terms) -> bool:
    """Whether nothing was taken out."""
    return len(terms) == 1 and all(t.is_plain for t in terms)


def _product(rw: Rewriter, index: int) -> Terms | None:
    eqn = rw.use.eqns[index]
    left, right = split_terms(rw, index, 0), split_terms(rw, index, 1)
    if len(left) > 1 and len(right) > 1:
        raise NotStreamable(
            f"not streamable: the product of two differences with a running reduction, written "
            f"out as a sum, loses what they have in common - {eqn.origin.place}"
        )
    if _are_plain(left) and _are_plain(right):
        return None
    return tuple(_multiply(rw, eqn, a, b) for a in left for b in right)


def _multiply(rw: Rewriter, eqn: Eqn, a: Term, b: Term) -> Term:
    base = b.base if a.base is None else a.base
    if isinstance(a.base, Lit) and isinstance(b.base, Lit):
        base = Lit(a.base.value * b.base.value, a.base.dtype)
    elif a.base is not None and b.base is not None:
        base = rw.wide_op(eqn, "mul", a.base, b.base)
    counts = (a.counts or a.base is None) and (b.counts or b.base is None)
    return Term(base, a.steps + b.steps, a.masks + b.masks, a.negative != b.negative, counts)


def _quotient(rw: Rewriter, index: int) -> Terms | None:
    use, eqn = rw.use, rw.use.eqns[index]
    divisor = eqn.inputs[1]
    is_late = use.is_late(divisor)
    if is_late and use.varies(index, 1):
        return None
    terms = split_terms(rw, index, 0)
    if is_late:
        return tuple(replace(t, steps=(*t.steps, ("div", rw.row(divisor)))) for t in terms)
    if _are_plain(terms):
        return None
    one, by = Lit(1.0, eqn.out.type.dtype), rw.wide(index, 1)
    return tuple(
        replace(t, base=_divide(rw, eqn, one if t.base is None else t.base, by), counts=False)
        for t in terms
    )


def _divide(rw: Rewriter, eqn: Eqn, base: Value, by: Value) -> Value:
    if isinstance(base, Lit) and isinstance(by, Lit) and by.value:
        return Lit(base.value / by.value, base.dtype)
    return rw.wide_op(eqn, "div", base, by)


def _select(rw: Rewriter, index: int) -> Terms | None:
    """Either branch where its condition holds, by position or by row."""
    use, eqn = rw.use, rw.use.eqns[index]
    condition = eqn.inputs[0]
    if use.is_late(condition) and use.varies(index, 0):
        return None
    branches = [
        () if constant_of(rw.makers, rw.wide(index, slot)) == 0 else split_terms(rw, index, slot)
        for slot in (1, 2)
    ]
    if use.is_late(condition):
        return tuple(
            replace(t, steps=(*t.steps, (step, rw.row(condition))))
            for step, terms in zip(("keep_if", "keep_unless"), branches, strict=True)
            for t in terms
        )
    every = branches[0] + branches[1]
    if all(map(len, branches)) and all(t.is_plain and t.base is not None for t in every):
        return None if rw.actions.is_repairable(eqn.out) else _chosen(rw, index, branches)
    return _chosen(rw, index, branches)


def _chosen(rw: Rewriter, index: int, branches: list[Terms]) -> Terms:
    eqn, mask = rw.use.eqns[index], rw.wide(index, 0)
    zero, one = Lit(0.0, eqn.out.type.dtype), Lit(1.0, eqn.out.type.dtype)
    found: list[Term] = []
    for holds, terms in zip((True, False), branches, strict=True):
        if not terms:
            continue
        where = mask if holds else rw.wide_op(eqn, "not", mask)
        for t in terms:
            base = one if t.base is None else t.base
            if len(terms) == 1 and t.is_plain and not all(map(len, branches)):
                kept: Var = eqn.out
            elif isinstance(base, Lit) and isinstance(where, Lit):
                return (Term(eqn.out),)
            else:
                kept = rw.wide_op(eqn, "select", where, base, zero)
            counts = t.base is None or t.counts
            found.append(replace(t, base=kept, masks=(*t.masks, where), counts=counts))
    return tuple(found)


def _view(rw: Rewriter, index: int) -> Terms | None:
    terms = split_terms(rw, index, 0)
    if _are_plain(terms):
        return None
    return tuple(
        replace(
            t,
            base=None if t.base is None else rw.view(index, t.base),
            steps=tuple((step, rw.small_view(index, row)) for step, row in t.steps),
            masks=tuple(rw.view(index, m) for m in t.masks),
        )
        for t in terms
    )


def _convert(rw: Rewriter, index: int) -> Terms | None:
    eqn = rw.use.eqns[index]
    source, target = eqn.inputs[0].type.dtype, eqn.out.type.dtype
    terms = split_terms(rw, index, 0)
    if not source.is_float or _are_plain(terms):
        return None
    if not _keeps_range(source, target) and not all(_is_within_one(rw, t.base) for t in terms):
        return None
    return tuple(
        replace(t, base=None if t.base is None else rw.convert(eqn, t.base, target)) for t in terms
    )


def _keeps_range(source: DType, target: DType) -> bool:
    return target in (DType.F64, source) or (target in _WIDE and source is not DType.F64)


_WIDE = (DType.F32, DType.BF16)


def _is_within_one(rw: Rewriter, value: Value | None) -> bool:
    """Whether it is exp of a row less its own maximum, masked or not."""
    if value is None or isinstance(value, Lit):
        return value is None or abs(value.value) <= 1
    eqn = rw.makers.get(value)
    if eqn is None:
        return False
    if eqn.prim == "select":
        return all(_is_within_one(rw, v) for v in eqn.inputs[1:])
    if eqn.prim in ("convert", "broadcast", "reshape", "transpose"):
        return _is_within_one(rw, eqn.inputs[0])
    inner = rw.makers.get(cast(Var, eqn.inputs[0])) if eqn.prim in ("exp", "exp2") else None
    return inner is not None and inner.prim == "sub" and _is_peak(rw, inner)


def _is_peak(rw: Rewriter, eqn: Eqn) -> bool:
    """Whether `eqn` takes a maximum of its first operand from it."""
    x, peak = eqn.inputs
    todo, seen = [peak], set[Value]()
    while todo:
        value = todo.pop()
        maker = rw.makers.get(value) if isinstance(value, Var) and value not in seen else None
        seen.add(value)
        if maker is None:
            continue
        if maker.prim == "reduce_max" and maker.inputs[0] == x:
            return True
        if maker.prim in ("broadcast", "reshape", "transpose", "max"):
            todo.extend(maker.inputs)
        elif maker.prim == "select":
            # The other branch is what stands for a row of nothing but -inf.
            todo.extend(v for v in maker.inputs[1:] if constant_of(rw.makers, v) is None)
    return False


_RULES: dict[str, Callable[[Rewriter, int], Terms | None]] = {
    "add": _sum,
    "sub": _sum,
    "neg": _negate,
    "mul": _product,
    "div": _quotient,
    "select": _select,
    "broadcast": _view,
    "reshape": _view,
    "transpose": _view,
    "convert": _convert,
}
