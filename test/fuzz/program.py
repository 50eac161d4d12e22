"""A fuzzed program: inputs, statements, results, and how it is called. Frozen values only."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Extent: TypeAlias = int | str
"""A number, or the name of a size that differs between calls."""

Dynamic: TypeAlias = Literal["default", "always", "never", "marked"]
"""torch.compile's `dynamic` at None, True and False; or inputs marked by `mark_dynamic`."""


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor of `shape` and `dtype` filled as `data` says; `view` is the part that is passed.

    With `base` it is a view of that earlier input, and has no memory of its own.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    data: str
    seed: int
    view: str = "{0}"
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """`targets = template(operands)`, or a write into an operand where there are no targets."""

    targets: tuple[str, ...]
    template: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        call = self.template.format(*self.operands)
        return f"{', '.join(self.targets)} = {call}" if self.targets else call


@dataclass(frozen=True, slots=True)
class Program:
    """A function of `inputs`, called once for each row of numbers for `sizes`."""

    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    sizes: tuple[str, ...]
    calls: tuple[tuple[int, ...], ...]
    dynamic: Dynamic = "default"
    training: bool = False
