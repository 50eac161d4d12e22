"""What one spelling of a workload is estimated to take on one chip."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpu_inductor.aot.messages import CompileReply
from tpu_inductor.aot.price import OpPrice, Price

WARM_SHARE = 0.05
"""A warm time that differs from the cold one by more than this is told."""


@dataclass(frozen=True, slots=True)
class OpFigure:
    """One instruction of a program, all its calls together, on one JAX device."""

    name: str
    time_us: float
    hbm_bytes: int


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimate, or an error. `time_us` is cold; `warm_us` is after XLA prefetched operands.

    `doubts` says why the estimate is not to be trusted. `spelling` is which of several this is.
    `ops` are not kept in files.
    """

    error: str = ""
    time_us: float = 0.0
    warm_us: float = 0.0
    compute_us: float = 0.0
    hbm_bytes: int = 0
    mxu_utilisation: float = 0.0
    vmem_bytes: int = 0
    doubts: str = ""
    compile_s: float = 0.0
    ops: tuple[OpFigure, ...] = ()
    spelling: str = ""

    @staticmethod
    def of(reply: CompileReply, cores: int) -> "Figure":
        """The answer of a compile worker to a request for both prices."""
        price = reply.price
        if price is None or reply.warm is None:
            return Figure(reply.result.error or reply.unpriced, compile_s=reply.seconds)
        return Figure(
            "",
            price.time_us,
            reply.warm.time_us,
            price.compute_us,
            price.hbm_bytes,
            price.mxu_utilisation,
            price.vmem_bytes,
            _doubts(price),
            reply.seconds,
            tuple(_op_figure(op, price.clock_mhz, cores) for op in price.ops),
        )

    @staticmethod
    def total(figures: Sequence["Figure"]) -> "Figure":
        """Programs that run in turn. One error is the error of all."""
        errors = [f.error for f in figures if f.error]
        if errors or not figures:
            return Figure(errors[0] if errors else "no program to price")
        if len(figures) == 1:
            return figures[0]
        time_us = sum(f.time_us for f in figures)
        return Figure(
            "",
            time_us,
            sum(f.warm_us for f in figures),
            sum(f.compute_us for f in figures),
            sum(f.hbm_bytes for f in figures),
            sum(f.mxu_utilisation * f.time_us for f in figures) / time_us,
            max(f.vmem_bytes for f in figures),
            "; ".join(f.doubts for f in figures if f.doubts),
            sum(f.compile_s for f in figures),
            tuple(op for f in figures for op in f.ops),
        )

    @staticmethod
    def fastest(figures: Sequence["Figure"]) -> "Figure":
        """The least cold time of those that compile; the first error where none does."""
        good = [f for f in figures if f.ok]
        return min(good, key=lambda f: f.time_us) if good else figures[0]

    @property
    def ok(self) -> bool:
        return not self.error

    @property
    def is_trusted(self) -> bool:
        return self.ok and not self.doubts

    @property
    def differs_warm(self) -> bool:
        return abs(self.time_us - self.warm_us) > WARM_SHARE * self.time_us

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON; `Figure(**values)` reads them, all but `ops`."""
        values = asdict(self)
        del values["ops"]
        return values


def _op_figure(op: OpPrice, clock_mhz: float, cores: int) -> OpFigure:
    time_us = (op.cycles + op.stall_cycles) / clock_mhz
    return OpFigure(op.name, time_us, cores * (op.read_bytes + op.written_bytes))


def _doubts(price: Price) -> str:
    """Why a price is not trusted, in words."""
    reasons = {
        f"{price.unknown_branches} branches guessed": price.unknown_branches,
        f"no code of {', '.join(price.missing)}": price.missing,
        "cut short": price.truncated,
    }
    return ", ".join(text for text, is_so in reasons.items() if is_so)
