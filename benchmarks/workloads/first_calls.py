"""Programs whose first call takes long: thousands of operators, windows of hundreds of places."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

Program = tuple[Callable[..., Any], tuple[Any, ...], bool]
"""What to call, with what, and whether gradients follow."""

POINTWISE = 2500
STEPS = 48


def chain() -> Program:
    """Pointwise operators, one after the other."""

    def run(x: torch.Tensor) -> torch.Tensor:
        for i in range(POINTWISE // 5):
            x = (
                torch.relu(torch.sin(x) * 1.01 + 0.5)
                if i % 2
                else torch.tanh(x - 0.01) * 1.01 + 0.5
            )
            x = x - 0.25
        return x

    return run, (torch.randn(64),), False


def gru() -> Program:
    """A cell unrolled, and its gradients."""
    cell = torch.nn.GRUCell(32, 64)

    def run(xs: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(8, 64)
        for x in xs:
            h = cell(x, h)
        return h.sum()

    return run, (torch.randn(STEPS, 8, 32),), True


def max_pool(kernel: int) -> Program:
    """Maxima and their places in overlapping windows."""
    run = partial(
        F.max_pool2d, kernel_size=kernel, stride=1, padding=kernel // 2, return_indices=True
    )
    return lambda x: run(x), (torch.randn(1, 8, 26, 26),), False


FIRST_CALLS: dict[str, Callable[[], Program]] = {
    "chain": chain,
    "gru": gru,
    **{f"max_pool_{n}": partial(max_pool, n) for n in (7, 9, 13)},
}
"""By name."""
