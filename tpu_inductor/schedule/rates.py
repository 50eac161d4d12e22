"""How fast a generation's units are, as far as a schedule's estimate needs it.

Cycles are of one TensorCore, per vector register of 1024 32-bit lanes: marginal costs of primitives
in kernels that repeat them, by deviceless estimates for v5e and v6e. `benchmarks/calibrate.py` says
how far the estimates that follow from them are off.
"""

from dataclasses import dataclass

from tpu_inductor.target import TpuTarget

DMA_LATENCY_US = 1.0
"""From the start of a copy to its arrival, beside the bytes; what the deviceless clock assumes."""

ROW_COPY_US = 1.0
"""XLA's copy between a vector and a matrix of one row; by the deviceless clock, on every chip."""

POINT_CYCLES = 190
"""Grid bookkeeping of one point, and filling and draining the units."""

CHUNK_CYCLES = 150
"""The same for one turn of the loop over a block."""

PUSH_CYCLES = 4
"""An array takes a register of weights."""

LOAD_CYCLES, STORE_CYCLES = 0.1, 0.4

SIMPLE = 0.2
"""Additions, comparisons, masks: several a cycle, mostly beside something slower."""

PRIMITIVE_CYCLES = {
    "abs": 0.3,
    "sign": 1.2,
    "round": 2.2,
    "exp": 0.9,
    "exp2": 0.9,
    "log": 1.0,
    "log2": 1.0,
    "log10": 1.2,
    "log1p": 2.3,
    "sqrt": 3.0,
    "rsqrt": 2.3,
    "sin": 37.0,
    "cos": 37.0,
    "tan": 43.0,
    "tanh": 1.0,
    "erf": 9.5,
    "logistic": 3.7,
    "pow": 13.5,
    "rem": 2.5,
    "div": 3.5,
    "idiv": 12.0,
    "select": 0.5,
    "convert": 0.2,
    "iota": 0.3,
    "reduce_sum": 0.4,
    "reduce_max": 0.4,
    "reduce_min": 0.4,
    "reduce_and": 0.5,
    "reduce_or": 0.5,
    "argmax": 2.6,
    "argmin": 2.6,
}
"""What is not here is simple."""

PRIMITIVE_CYCLES_6 = {
    "sqrt": 1.8,
    "rsqrt": 1.0,
    "sin": 24.7,
    "cos": 24.5,
    "tan": 27.0,
    "erf": 1.1,
    "logistic": 2.0,
    "pow": 3.9,
    "div": 1.0,
}
"""From generation 6, where the unit of transcendental functions has erf, and exact reciprocals."""


def primitive_cycles(prim: str, target: TpuTarget) -> float:
    """Cycles of a pointwise primitive or a reduction for one register of its largest value."""
    cycles = PRIMITIVE_CYCLES.get(prim, SIMPLE)
    return PRIMITIVE_CYCLES_6.get(prim, cycles) if target.generation >= 6 else cycles


@dataclass(frozen=True, slots=True)
class MatmulRates:
    """What a matmul block costs beside its products.

    `fill` is filling and draining the systolic array, `accumulate` one register of the accumulator,
    in and out; `exposed` is the part of the vector work around the product that it does not hide.
    """

    fill: float
    accumulate: float
    exposed: float


def matmul_rates(target: TpuTarget) -> MatmulRates:
    """The rates of a generation: the faster the products, the less they hide."""
    if target.generation <= 5:
        return MatmulRates(fill=60, accumulate=0.25, exposed=0.15)
    return MatmulRates(fill=150, accumulate=0.1, exposed=0.6)
