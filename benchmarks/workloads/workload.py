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

    Both take the arguments of `specs` in order. `by_hand` is how somebody who knows JAX would write
    it, not a transcription of what `function` decomposes to; its results need not be of the same
    structure. It is a function of a module of `by_hand`, which workers import without torch.
    """

    name: str
    function: Callable[..., Any]
    by_hand: Callable[..., Any]
    specs: Sequence[Spec]
