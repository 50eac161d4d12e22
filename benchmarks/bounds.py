"""The least time that a chip can take for a graph: its HBM traffic and its matmuls, each alone.

    Bound.of([graph], TARGETS["v5e"]).time_us

Bytes are those of the inputs that the graph reads and of its outputs, once. Of an input that only
gathers and slices read, what they read counts. FLOPs of matmuls count at the peak of the operands'
type: int8 runs twice as fast as bfloat16 from v5e on, exact float32 takes six passes of it. Both
are of one JAX device, which has two cores on v5p.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from tpu_inductor.aot.timing import chip_timing
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Graph, Var
from tpu_inductor.graph.prims import EAGER, PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.target import TpuTarget

PARTIAL = ("gather", "slice")
"""Primitives that read of their first operand as much as they return."""

PASSES = {"highest": 6.0, "high": 3.0, "default": 1.0}
"""bf16 passes of the MXU for a float32 product, by precision."""

EIGHT_BIT = (DType.I8, DType.U8)


@dataclass(frozen=True, slots=True)
class Bound:
    """The least bytes and the least times of one run on one JAX device."""

    hbm_bytes: int
    hbm_us: float
    mxu_us: float

    @staticmethod
    def of(graphs: Sequence[Graph], target: TpuTarget) -> "Bound":
        """The bound of graphs that run in turn."""
        bytes_ = sum(least_bytes(graph) for graph in graphs)
        work = sum(mxu_work(eqn, target) for graph in graphs for eqn in graph.eqns)
        hbm_us = bytes_ / chip_timing(target).hbm_gbps / 1e3
        return Bound(bytes_, hbm_us, work / peak_tflops(target) / 1e6)

    @property
    def time_us(self) -> float:
        return max(self.hbm_us, self.mxu_us)

    @property
    def is_memory(self) -> bool:
        """Whether the HBM decides."""
        return self.hbm_us >= self.mxu_us


def peak_tflops(target: TpuTarget) -> float:
    """bf16 TFLOP/s of a JAX device; targets tell those of a core."""
    return target.bf16_tflops * chip_timing(target).cores


def peaks(target: TpuTarget) -> dict[str, float]:
    """What a JAX device can do at the most: GB/s of HBM, TFLOP/s of bfloat16, TOP/s of int8."""
    tflops = peak_tflops(target)
    int8_tops = tflops / _passes(DType.I8, "default", target)
    hbm_gbps = chip_timing(target).hbm_gbps
    return {"hbm_gbps": hbm_gbps, "bf16_tflops": tflops, "int8_tops": int8_tops}


def least_bytes(graph: Graph) -> int:
    """Bytes of inputs that are read and of outputs that are made, each once."""
    readers: dict[Var, list[Eqn]] = {}
    for eqn in graph.eqns:
        for operand in eqn.operands:
            readers.setdefault(operand, []).append(eqn)
    read = sum(_bytes_read(var, readers[var]) for var in graph.inputs if var in readers)
    made = {v for v in graph.outputs if isinstance(v, Var)} - set(graph.inputs)
    return read + sum(var.type.nbytes for var in made)


def _bytes_read(var: Var, readers: Iterable[Eqn]) -> int:
    parts = [_part_read(var, eqn) for eqn in readers]
    return min(var.type.nbytes, sum(parts))


def _part_read(var: Var, eqn: Eqn) -> int:
    is_partial = eqn.prim in PARTIAL and eqn.inputs[0] == var and var not in eqn.inputs[1:]
    return eqn.out.type.nbytes if is_partial else var.type.nbytes


def mxu_work(eqn: Eqn, target: TpuTarget) -> float:
    """FLOPs of a matmul or a convolution, in FLOPs of bfloat16 that take as long."""
    if eqn.prim not in _MXU_FLOPS:
        return 0.0
    dtype = eqn.inputs[0].type.dtype
    return matmul_flops(eqn) * _passes(dtype, cast("A.Dot", eqn.attrs).precision, target)


def _passes(dtype: DType, precision: str, target: TpuTarget) -> float:
    if dtype is DType.F32:
        return PASSES[precision]
    return 0.5 if dtype in EIGHT_BIT and target.name != "v4" else 1.0


def matmul_flops(eqn: Eqn) -> int:
    """Multiplications and additions that belong on the MXU, 0 for other primitives."""
    count = _MXU_FLOPS.get(eqn.prim)
    return count(eqn) if count else 0


def _dot_flops(eqn: Eqn) -> int:
    lhs, attrs = eqn.inputs[0].type, cast("A.Dot", eqn.attrs)
    return 2 * eqn.out.type.size * math.prod(lhs.dims[d] for d in attrs.lhs_contract)


def _conv_flops(eqn: Eqn) -> int:
    # Weights are (out, in / groups, *window): all but the first dimension are contracted.
    return 2 * eqn.out.type.size * math.prod(eqn.inputs[1].type.dims[1:])


_MXU_FLOPS = {"dot": _dot_flops, "conv": _conv_flops}


def count_flops(eqns: Iterable[Eqn]) -> int:
    """FLOPs of all kinds: those of matmuls, and one for each element of other arithmetic."""
    return sum(matmul_flops(eqn) or _element_flops(eqn) for eqn in eqns)


def _element_flops(eqn: Eqn) -> int:
    if eqn.prim == EAGER or eqn.prim in ("convert", "bitcast"):
        return 0
    if PRIMS[eqn.prim].kind is Kind.REDUCE:
        return eqn.inputs[0].type.size
    return eqn.outputs[0].type.size if PRIMS[eqn.prim].kind is Kind.POINTWISE else 0
