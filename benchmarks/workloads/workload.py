"""What one row of the comparison with XLA is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Spec:
    """The shape and dtype of one argument."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.bfloat16

    def empty(self) -> torch.Tensor:
        return torch.empty(self.shape, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Workload:
    """A torch function, and the same written for JAX by hand.

    All take the arguments of `specs` in order. `by_hand` are the ways in which somebody who knows
    JAX would write it, the plainest first, no transcription of what `function` decomposes to; their
    results need not be of the same structure. They are functions of modules of `by_hand`, which
    workers import without torch. Workloads of one `family` have one vote in summaries.
    """

    name: str
    family: str
    function: Callable[..., Any]
    by_hand: Sequence[Callable[..., Any]]
    specs: Sequence[Spec]
