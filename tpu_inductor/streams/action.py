"""What a change of tags does to a value that was computed with the old ones.

    add, sub, neg     combine shifts          exp   a shift by d becomes a scale by e^d
    mul, div          combine scales          log   a scale by r becomes a shift by log r
    select(m, x, 0)   keeps a scale           select(m, x, -inf)   keeps a shift
    convert, views    keep either             everything else refuses

A value that is in no row of this table cannot be repaired, so that its region does not stream. The
rule unifies what FuseMax (arXiv 2406.10491), Flashlight (arXiv 2511.02043), Neptune (PLDI 2026) and
RedFuser (ASPLOS 2026) each do in part.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.streams.axis import NotStreamable

NONE = A.NoAttrs()


@dataclass(frozen=True, slots=True)
class Change:
    """The new value of a tag less the old ("sub"), or over it ("div")."""

    tag: Var
    how: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive of changes, with extent 1 along the axis."""

    prim: str
    args: tuple["Delta", ...]
    attrs: A.Attrs = NONE


Delta: TypeAlias = Change | Apply


@dataclass(frozen=True, slots=True)
class Still:
    """The value does not change."""


@dataclass(frozen=True, slots=True)
class Tag:
    """The value repeats a tag along the axis, and acts as its reader needs."""

    tag: Var


@dataclass(frozen=True, slots=True)
class Shift:
    """`delta` is added to the value."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class Scale:
    """The value is multiplied by `delta`, which is known to be `positive`, or not."""

    delta: Delta
    positive: bool


Action: TypeAlias = Still | Tag | Shift | Scale

STILL = Still()


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of the values of a region whose rows have extent 1 along the axis.

    `repeated` has the tag behind every value that repeats one, `small` the attributes that a view
    of a varying value has on extent 1.
    """

    makers: Mapping[Var, Eqn]
    late: set[Var]
    repeated: Mapping[Var, Var]
    small: Mapping[Var, A.Attrs]
    known: dict[Var, Action] = field(default_factory=dict[Var, Action])

    def of(self, value: Value) -> Action:
        """Raises NotStreamable where the value cannot be repaired."""
        if isinstance(value, Lit) or value not in self.late:
            return STILL
        if value in self.repeated:
            return Tag(self.repeated[value])
        if value not in self.known:
            self.known[value] = self._of(self.makers[value])
        return self.known[value]

    def is_repairable(self, value: Value) -> bool:
        try:
            self.of(value)
        except NotStreamable:
            return False
        return True

    def _of(self, eqn: Eqn) -> Action:
        given = tuple(self.of(v) for v in eqn.inputs)
        rule = _RULES.get(eqn.prim)
        found = None
        if eqn.out.type.dtype.is_float:
            if PRIMS[eqn.prim].kind is Kind.VIEW:
                found = _view(given[0], self.small[eqn.out], eqn.prim)
            elif rule is not None:
                found = rule(self, eqn, given)
        if found is None:
            raise NotStreamable(_refusal(eqn, given))
        return found

    # -- as the reader needs --------------------------------------------------------
    def shift(self, action: Action) -> Delta | Still | None:
        """The action as a shift, None if it is none."""
        if isinstance(action, Tag):
            return Change(action.tag, "sub")
        return action.delta if isinstance(action, Shift) else _still(action)

    def scale(self, action: Action) -> Scale | Still | None:
        """The action as a scale, None if it is none."""
        if isinstance(action, Tag):
            return Scale(Change(action.tag, "div"), self.is_positive(action.tag))
        return action if isinstance(action, Scale) else _still(action)

    def is_positive(self, value: Value) -> bool:
        """Whether no element is negative."""
        if isinstance(value, Lit):
            return value.value >= 0
        eqn = self.makers.get(value)
        if eqn is None:
            return False
        if isinstance(eqn.attrs, A.Full):
            return eqn.attrs.value >= 0
        if eqn.prim in ("exp", "exp2", "sqrt", "rsqrt", "abs", "logistic"):
            return True
        if eqn.prim == "max":
            return any(map(self.is_positive, eqn.inputs))
        chosen = eqn.inputs[1:] if eqn.prim == "select" else eqn.inputs
        return eqn.prim in _KEEP_SIGN and all(map(self.is_positive, chosen))


_KEEP_SIGN = frozenset(
    [
        *("add", "mul", "div", "min", "select", "convert", "broadcast", "reshape", "transpose"),
        *("dot", "reduce_sum", "reduce_max", "reduce_min"),
    ]
)


def _still(action: Action) -> Still | None:
    return action if isinstance(action, Still) else None


def _view(action: Action, attrs: A.Attrs, prim: str) -> Action | None:
    if isinstance(action, Shift):
        return Shift(Apply(prim, (action.delta,), attrs))
    if isinstance(action, Scale):
        return Scale(Apply(prim, (action.delta,), attrs), action.positive)
    return None


Rule = Callable[[Actions, Eqn, tuple[Action, ...]], Action | None]


def _sum(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    """Shifts add up; values of one scale keep it."""
    if isinstance(given[0], Scale) and given[0] == given[1]:
        return given[0]
    left, right = map(actions.shift, given)
    if left is None or right is None:
        return None
    if isinstance(right, Still):
        return left if isinstance(left, Still) else Shift(left)
    if isinstance(left, Still):
        return Shift(right if eqn.prim == "add" else Apply("neg", (right,)))
    return Shift(Apply(eqn.prim, (left, right)))


def _product(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    left, right = map(actions.scale, given)
    if left is None or right is None:
        return None
    if isinstance(right, Still):
        return left
    if isinstance(left, Still):
        inverse = Scale(Apply("reciprocal", (right.delta,)), right.positive)
        return right if eqn.prim == "mul" else inverse
    both = Apply(eqn.prim, (left.delta, right.delta))
    return Scale(both, left.positive and right.positive)


def _negate(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    if isinstance(given[0], Shift):
        return Shift(Apply("neg", (given[0].delta,)))
    return given[0] if isinstance(given[0], Scale) else None


def _exponential(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    delta = actions.shift(given[0])
    if delta is None or isinstance(delta, Still):
        return delta
    return Scale(Apply(eqn.prim, (delta,)), True)


def _logarithm(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    scale = actions.scale(given[0])
    if isinstance(scale, Scale) and scale.positive:
        return Shift(Apply(eqn.prim, (scale.delta,)))
    return None


def _convert(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    """Rounding only, between floats."""
    return given[0] if eqn.inputs[0].type.dtype.is_float else None


def _select(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    """Branches of one action keep it; 0 has every scale and an infinity every shift."""
    condition, *branches = given
    if not isinstance(condition, Still):
        return None
    return _common(actions, eqn.inputs[1:], branches)


def _extreme(actions: Actions, eqn: Eqn, given: tuple[Action, ...]) -> Action | None:
    """max(x + d, y + d) is max(x, y) + d, and max(x r, y r) is max(x, y) r of a positive r."""
    found = _common(actions, eqn.inputs, list(given))
    return None if isinstance(found, Scale) and not found.positive else found


def _common(actions: Actions, values: tuple[Value, ...], given: list[Action]) -> Action | None:
    """The one action that all of `values` have or may be given."""
    moving = list(dict.fromkeys(a for a in given if not isinstance(a, Still)))
    if len(moving) != 1 or isinstance(moving[0], Tag):
        return None
    (action,) = moving
    fits = _is_zero if isinstance(action, Scale) else _is_infinite
    rest = [v for v, a in zip(values, given, strict=True) if isinstance(a, Still)]
    return action if all(fits(actions.makers, v) for v in rest) else None


def constant_of(makers: Mapping[Var, Eqn], value: Value) -> float | None:
    """The one number that all elements of `value` are."""
    if isinstance(value, Lit):
        return value.value
    eqn = makers.get(value)
    if eqn is not None and eqn.prim == "broadcast":
        return constant_of(makers, eqn.inputs[0])
    return eqn.attrs.value if eqn is not None and isinstance(eqn.attrs, A.Full) else None


def _is_zero(makers: Mapping[Var, Eqn], value: Value) -> bool:
    return constant_of(makers, value) == 0


def _is_infinite(makers: Mapping[Var, Eqn], value: Value) -> bool:
    number = constant_of(makers, value)
    return number is not None and math.isinf(number)


_RULES: dict[str, Rule] = {
    "add": _sum,
    "sub": _sum,
    "neg": _negate,
    "mul": _product,
    "div": _product,
    "exp": _exponential,
    "exp2": _exponential,
    "log": _logarithm,
    "log2": _logarithm,
    "convert": _convert,
    "select": _select,
    "max": _extreme,
    "min": _extreme,
}


def _refusal(eqn: Eqn, given: tuple[Action, ...]) -> str:
    how = {Tag: "changes", Shift: "shifts", Scale: "scales", Still: ""}
    verbs = list(dict.fromkeys(how[type(a)] for a in given if not isinstance(a, Still)))
    moved = " and of one that ".join(f"{verb} with a running reduction" for verb in verbs)
    return f"not streamable: {eqn.prim} of a value that {moved} - {eqn.origin.place}"


def tags_of(delta: Delta) -> dict[Var, set[str]]:
    """The tags that a delta depends on, and how it compares their values."""
    if isinstance(delta, Change):
        return {delta.tag: {delta.how}}
    found: dict[Var, set[str]] = {}
    for arg in delta.args:
        for tag, how in tags_of(arg).items():
            found.setdefault(tag, set()).update(how)
    return found
