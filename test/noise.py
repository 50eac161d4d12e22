"""How far the results of a random graph may be from the interpreter's, found by experiment.

    bounds = Bounds.of(graph, inputs)
    bounds.check(results, "where")

Sums in another order and fused multiply-adds differ in the last places, and what follows (floor, a
comparison, a cancellation) may make any difference of that. So the graph is interpreted again with
small noise on every float operand; results may differ by a few times what the noise does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tpu_inductor.graph.core import Graph, Lit, Var
from tpu_inductor.graph.interp import run, run_eqn
from tpu_inductor.graph.prims import ARG_REDUCE, COMPARE, PRIMS, Kind
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE

NOISE = {torch.float64: 2.0**-50, torch.float32: 2.0**-21, torch.bfloat16: 2.0**-7}
"""Relative: a few units in the last place, in bfloat16 one."""

EXACT = frozenset(
    [
        *("neg", "abs", "sign", "floor", "max", "min", "select", "convert", "is_nan"),
        *("reduce_max", "reduce_min", "slice", "pad", "concat", *ARG_REDUCE, *COMPARE),
    ]
)
RUNS = 4
FACTOR = 4.0


@dataclass(frozen=True)
class Bounds:
    """The interpreter's results, and those of noisy runs."""

    want: list[torch.Tensor]
    noisy: list[list[torch.Tensor]]

    @staticmethod
    def of(graph: Graph, inputs: Sequence[torch.Tensor]) -> "Bounds":
        noisy = [_run_noisy(graph, inputs, seed) for seed in range(RUNS)]
        return Bounds(run(graph, inputs), noisy)

    def check(self, got: Sequence[torch.Tensor], where: str) -> None:
        assert len(got) == len(self.want)
        for i, (a, b) in enumerate(zip(got, self.want, strict=True)):
            assert a.dtype == b.dtype, where
            assert a.shape == b.shape, where
            bad = ~_is_near(a, b, [results[i] for results in self.noisy])
            if bad.any():
                places = bad.nonzero()[:4].tolist()
                text = [f"{p}: {a[tuple(p)]} is not {b[tuple(p)]}" for p in places]
                share = f"{int(bad.sum())} of {b.numel()}"
                raise AssertionError(f"result {i}, {share} elements: {'; '.join(text)}\n{where}")


def _is_near(got: torch.Tensor, want: torch.Tensor, noisy: list[torch.Tensor]) -> torch.Tensor:
    """Elementwise: as near as noise allows, and equal where noise changes nothing."""
    same = _is_equal(got, want)
    if not want.is_floating_point():
        stable = torch.stack([run == want for run in noisy]).all(0)
        return same | ~stable
    a, b, runs = got.double(), want.double(), torch.stack(noisy).double()
    spread = (runs - b).abs().amax(0)
    # Of thousands of elements, some are hit by little noise in every run.
    spread = spread.clamp(min=spread.flatten().nan_to_num(0).median()) if spread.numel() else spread
    ulp = {torch.float64: 2.0**-49, torch.float32: 2.0**-20, torch.bfloat16: 2.0**-7}.get(
        want.dtype, 0
    )
    near = (a - b).abs() <= FACTOR * spread + ulp * b.abs() + 1e-30
    settled = torch.stack([_is_equal(run, b) | run.isfinite() & b.isfinite() for run in runs]).all(
        0
    )
    return same | near | ~settled


def _is_equal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _run_noisy(graph: Graph, inputs: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    env: dict[Var, torch.Tensor] = dict(zip(graph.inputs, inputs, strict=True))

    def read(value: object, scale: float) -> torch.Tensor:
        if isinstance(value, Lit):
            return torch.tensor(value.value, dtype=TORCH_DTYPE[value.dtype])
        tensor = env[value]
        if not tensor.is_floating_point():
            return tensor
        noise = torch.rand(tensor.shape, generator=rng) * 2 - 1
        return (tensor.float() * (1 + scale * NOISE[tensor.dtype] * noise)).to(tensor.dtype)

    for eqn in graph.eqns:
        moves = PRIMS[eqn.prim].kind in (Kind.VIEW, Kind.CREATE) or eqn.prim in EXACT
        operands = [read(v, 0 if moves else 1) for v in eqn.inputs]
        env.update(zip(eqn.outputs, run_eqn(eqn, operands), strict=True))
    return [read(v, 0) for v in graph.outputs]
