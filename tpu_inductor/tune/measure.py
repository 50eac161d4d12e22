"""Times printed programs, each on its own.

DevicelessMeasurer(pool, TARGETS["v5e"]).measure([program])  -->  [Measurement(12.3)]
"""

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tpu_inductor.aot.messages import CompileReply, CompileRequest, argument_of
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.aot.require import require_libtpu
from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import Unsupported
from tpu_inductor.target import TpuTarget
from tpu_inductor.tune.select import Measurement

log = logging.getLogger("tpu_inductor")

TOLD_EVERY = 10
"""Compilations between two lines of progress in the log."""


class Measurer(Protocol):
    """Something that times programs. `label` says how: `estimated without a device`.

    Where `is_deterministic`, a second measurement of a program would give the same time.
    """

    @property
    def label(self) -> str: ...

    @property
    def is_deterministic(self) -> bool: ...

    def measure(self, programs: Sequence[Program]) -> list[Measurement]: ...


@dataclass(frozen=True, slots=True)
class DevicelessMeasurer:
    """Compiles for a chip that is not there and estimates the time from the compiled code."""

    pool: CompilerPool
    target: TpuTarget

    @property
    def label(self) -> str:
        return "estimated without a device"

    @property
    def is_deterministic(self) -> bool:
        return True

    def measure(self, programs: Sequence[Program]) -> list[Measurement]:
        """One estimate for each program, in order. They are compiled side by side."""
        requests = [self._request(program) for program in programs]
        return [_measurement(reply) for reply in self.pool.run(requests, self._tell)]

    def _request(self, program: Program) -> CompileRequest:
        arguments = tuple(argument_of(v) for v in program.inputs)
        return CompileRequest(program.name, program.source, arguments, self.target.name)

    def _tell(self, done: int, total: int) -> None:
        if done % TOLD_EVERY == 0 or done == total:
            log.info("tuning for %s: %d of %d programs compiled", self.target.name, done, total)


def can_measure() -> bool:
    """Whether there is something to measure with; if not, the log says once what to install."""
    try:
        require_libtpu()
    except Unsupported as error:
        _warn_once(f"nothing is tuned. {error}")
        return False
    return True


@functools.cache
def _warn_once(text: str) -> None:
    log.warning("%s", text)


def _measurement(reply: CompileReply) -> Measurement:
    if not reply.result.ok:
        return Measurement(refused=reply.result.error)
    if reply.price is None:
        return Measurement(doubt=reply.unpriced)
    doubt = "" if reply.price.trusted else "not to be trusted"
    return Measurement(reply.price.time_us, doubt=doubt)
