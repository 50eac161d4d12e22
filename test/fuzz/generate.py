"""A random program for a seed. Every statement is run in eager, so that almost all are valid."""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from test.fuzz.data import tensor
from test.fuzz.operators import EXPRESSIONS, OUT_OF_RANGE
from test.fuzz.program import Dynamic, Extent, Input, Program, Statement
from test.fuzz.rules import Rule
from test.fuzz.writes import VIEWED_INPUTS, WRITES

EXTENTS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 7, 8, 9, 16, 33)
DTYPES = (
    *["float32"] * 9,
    *["bfloat16"] * 3,
    *["float16", "float64"],
    *["int64"] * 4,
    *["int32"] * 2,
    *["bool"] * 3,
    *["uint8", "int8", "int16"],
)
DATA = (*["normal"] * 5, *["special"] * 3, "tiny", "count")
MAX_ELEMENTS = 4096
TRIES = 12
"""Draws of a statement before the program is left shorter than planned."""

EAGER_ERRORS = (RuntimeError, ValueError, TypeError, IndexError)
"""What torch raises for a call that does not fit; NotImplementedError is a RuntimeError."""

Values = dict[str, torch.Tensor]

_FITS: dict[str, Callable[[torch.Tensor], bool]] = {
    "a": lambda t: True,
    "f": lambda t: t.is_floating_point(),
    "n": lambda t: t.dtype is not torch.bool,
    "i": lambda t: not t.is_floating_point() and t.dtype is not torch.bool,
    "b": lambda t: t.dtype is torch.bool,
    "w": lambda t: not (t.is_leaf and t.requires_grad),
    "v": lambda t: t.is_floating_point() and t.dim() > 0,
    "m": lambda t: t.is_floating_point() and t.dim() > 1,
    "3": lambda t: t.is_floating_point() and t.dim() == 3,
    "4": lambda t: t.is_floating_point() and t.dim() == 4,
    "l": lambda t: t.dtype is torch.int64,
}

_DRAWN: dict[str, Callable[[random.Random, int], str]] = {
    "dim": lambda rng, rank: str(rng.randrange(-rank, rank)) if rank else "0",
    "other": lambda rng, rank: str(rng.randrange(rank)) if rank else "0",
    "dims": lambda rng, rank: str(tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))),
    "permutation": lambda rng, rank: ", ".join(map(str, rng.sample(range(rank), rank))),
    "flag": lambda rng, rank: str(rng.random() < 0.5),
    "scalar": lambda rng, rank: rng.choice(["0", "1", "-1", "2", "0.5", "-3.25", "1e-3"]),
    "float": lambda rng, rank: "torch." + rng.choice(["float32", "bfloat16", "float16", "float64"]),
    "int": lambda rng, rank: "torch." + rng.choice(["uint8", "int8", "int16", "int32", "int64"]),
    "signed": lambda rng, rank: "torch." + rng.choice(["int8", "int16", "int32", "int64"]),
}


def generate(seed: str) -> Program:
    """The program of `seed`: 1 to 3 inputs, up to 10 statements, 1 to 4 results."""
    rng = random.Random(seed)
    sizes, calls = _draw_sizes(rng)
    training = rng.random() < 0.2
    draft = _Draft(rng, training, [dict(zip(sizes, call, strict=True)) for call in calls])
    _add_inputs(draft)
    steps = rng.randint(1, 10)
    write_share = rng.choice([0, 0.1, 0.4])
    for _ in range(steps):
        draft.add_statement(write_share)
    dynamic: Dynamic = "default"
    if len(set(calls)) > 1:
        dynamic = rng.choice(["default", "default", "always", "never", "marked"])
    return Program(
        tuple(draft.inputs),
        tuple(draft.statements),
        _draw_results(draft),
        sizes,
        calls,
        dynamic,
        training,
    )


def _draw_sizes(rng: random.Random) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Names of sizes, and one or two calls: the same sizes again, or others."""
    names = ("n", "m")
    first = (rng.choice(EXTENTS), rng.choice(EXTENTS))
    if rng.random() < 0.3:
        first = (first[0], first[0])
    if rng.random() < 0.5:
        return names, (first,)
    if rng.random() < 0.3:
        return names, (first, first)
    other = (rng.choice(EXTENTS), rng.choice([first[1], rng.choice(EXTENTS)]))
    return names, (first, other)


class _Draft:
    """A program under construction, and the values that it has in each of its calls."""

    def __init__(
        self, rng: random.Random, training: bool, sizes: Sequence[Mapping[str, int]]
    ) -> None:
        self.rng = rng
        self.training = training
        self.sizes = sizes
        self.inputs: list[Input] = []
        self.statements: list[Statement] = []
        self.values: list[Values] = [{} for _ in sizes]

    def names(self) -> list[str]:
        return list(self.values[0])

    def add_input(self, given: Input) -> bool:
        """Whether `given` could be made for every call."""
        try:
            made = [
                _make(given, v, s, self.training)
                for v, s in zip(self.values, self.sizes, strict=True)
            ]
        except EAGER_ERRORS:
            return False
        for values, value in zip(self.values, made, strict=True):
            values[given.name] = value
        self.inputs.append(given)
        return True

    def add_statement(self, write_share: float) -> None:
        for _ in range(TRIES):
            statement = self._draw(write_share)
            if statement is not None and self._run(statement):
                return

    def _draw(self, write_share: float) -> Statement | None:
        rules, writes = self._family(write_share)
        kinds, template = self.rng.choice(rules)
        operands = [self._operand(kind) for kind in kinds]
        if None in operands:
            return None
        chosen = tuple(o for o in operands if o is not None)
        filled = fill(self.rng, template, self.values[0][chosen[0]].dim())
        if filled is None:
            return None
        targets = () if writes else (f"v{len(self.statements)}",)
        return Statement(targets, filled, chosen)

    def _family(self, write_share: float) -> tuple[Sequence[Rule], bool]:
        if self.rng.random() < write_share:
            return WRITES, True
        if self.rng.random() < 0.01:
            return OUT_OF_RANGE, False
        weights, families = zip(*EXPRESSIONS, strict=True)
        return self.rng.choices(families, weights)[0], False

    def _operand(self, kind: str) -> str | None:
        """A value that fits; later ones are likelier, so that programs are deep."""
        fitting = [n for n in self.names() if _FITS[kind](self.values[0][n])]
        if not fitting:
            return None
        if self.rng.random() < 0.4:
            return fitting[-1]
        return self.rng.choice(fitting)

    def _run(self, statement: Statement) -> bool:
        """Runs `statement` in every call, and keeps it if what it makes is small."""
        try:
            made = [run_statement(statement, values) for values in self.values]
        except EAGER_ERRORS:
            return False
        counts = {len(results) for results in made}
        if len(counts) > 1 or not all(_is_small(t) for results in made for t in results):
            return False
        targets = _name_targets(statement.targets, counts.pop())
        self.statements.append(replace(statement, targets=targets))
        for values, results in zip(self.values, made, strict=True):
            values.update(zip(targets, results, strict=True))
        return True


def _is_small(value: Any) -> bool:
    is_real = isinstance(value, torch.Tensor) and not value.is_complex()
    return is_real and value.numel() <= MAX_ELEMENTS


def _name_targets(targets: tuple[str, ...], count: int) -> tuple[str, ...]:
    """A name for each of several results."""
    return targets if count < 2 else tuple(f"{targets[0]}_{i}" for i in range(count))


def _add_inputs(draft: _Draft) -> None:
    rng = draft.rng
    for i in range(rng.randint(1, 3)):
        base = rng.choice(draft.inputs).name if draft.inputs and rng.random() < 0.15 else None
        view = rng.choice(VIEWED_INPUTS) if base or rng.random() < 0.3 else "{0}"
        shape = _draw_shape(rng)
        given = Input(
            f"x{i}", shape, rng.choice(DTYPES), rng.choice(DATA), rng.randrange(99), view, base
        )
        if not draft.add_input(given):
            # The view does not fit, or the shape is too large.
            draft.add_input(Input(f"x{i}", shape[:2], given.dtype, given.data, given.seed))


def _draw_shape(rng: random.Random) -> tuple[Extent, ...]:
    rank = rng.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4])
    named: list[Extent] = ["n", "n", "m", "m", 1, 2, 3, 4]
    return tuple(rng.choice(named[: 6 + 2 * (rank < 4)]) for _ in range(rank))


def _draw_results(draft: _Draft) -> tuple[str, ...]:
    """Mostly what nothing reads; sometimes other values, inputs, or one value twice."""
    rng = draft.rng
    read = {name for s in draft.statements for name in s.operands}
    unread = [n for n in draft.names() if n not in read and not n.startswith("x")]
    extra = rng.sample(draft.names(), min(len(draft.names()), rng.choice([0, 1, 1, 2])))
    results = [*unread[-3:], *extra] or [draft.names()[-1]]
    return tuple(results)


def fill(rng: random.Random, template: str, rank: int) -> str | None:
    """`template` with its drawn parts filled in; equal names within one call are drawn once."""
    drawn: dict[str, str] = {}
    for name in re.findall(r"<(\w+)>", template):
        if name in ("dim", "other", "dims", "permutation") and not rank:
            return None
        if name not in drawn:
            drawn[name] = _DRAWN[name](rng, rank)
        template = template.replace(f"<{name}>", drawn[name], 1)
    return template


def _make(given: Input, values: Values, sizes: Mapping[str, int], training: bool) -> torch.Tensor:
    if given.base is not None:
        made = values[given.base]
    else:
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in given.shape)
        if math.prod(shape) > MAX_ELEMENTS:
            raise ValueError("too large")
        made = tensor(given.seed, shape, getattr(torch, given.dtype), given.data)
    viewed = eval(given.view.format("made"), {"torch": torch}, {"made": made})
    if training and given.base is None and made.is_floating_point():
        viewed = viewed.detach().requires_grad_()
    return viewed


def run_statement(statement: Statement, values: Values) -> tuple[Any, ...]:
    """What an expression gives, as a tuple; nothing for a write."""
    names: dict[str, Any] = {
        "torch": torch,
        "F": torch.nn.functional,
        "math": math,
        **values,
    }
    call = statement.template.format(*statement.operands)
    if not statement.targets:
        exec(call, names)
        return ()
    result = eval(call, names)
    if not isinstance(result, tuple | list):
        return (result,)
    if len(result) < 2:
        raise ValueError("a tuple of one is spelled otherwise")
    return tuple(result)
