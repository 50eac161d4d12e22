"""Finds the region that makes a compiled function go wrong, by fusing fewer and fewer of them."""

from collections.abc import Callable
from typing import Any

import torch


def bisect(check: Callable[[int], bool], high: int) -> int:
    """The least fuel n <= `high` for which `check(n)` fails: region n, counted from 1, is guilty.

    `check(fuel)` says whether the result is right. Raises ValueError unless `check(0)` holds and
    `check(high)` fails.
    """
    if not check(0):
        raise ValueError("wrong even with fuel 0: the fault is not in a fused region")
    if check(high):
        raise ValueError(f"right with fuel {high}: nothing to find below it")
    good, bad = 0, high
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if check(middle) else (good, middle)
    return bad


def compile_with_fuel(fn: Callable[..., Any], fuel: int, **options: Any) -> Callable[..., Any]:
    """`fn` compiled anew with the first `fuel` regions fused."""
    torch._dynamo.reset()
    return torch.compile(fn, backend="tpu_tile", options={**options, "fuel": fuel})


def find_guilty_region(
    fn: Callable[..., Any],
    agrees: Callable[[Callable[..., Any]], bool],
    high: int,
    **options: Any,
) -> int:
    """`bisect` over the regions of `fn`: `agrees(compiled)` says whether it gives right results."""
    return bisect(lambda fuel: agrees(compile_with_fuel(fn, fuel, **options)), high)
