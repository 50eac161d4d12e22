"""A rule: the kinds of the operands, and the Python of a statement with places for them."""

from collections.abc import Sequence
from typing import TypeAlias

Rule: TypeAlias = tuple[str, str]


def rules(kinds: str, templates: Sequence[str]) -> tuple[Rule, ...]:
    return tuple((kinds, t) for t in templates)
