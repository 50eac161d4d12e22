"""Estimates of canonical kernels by the deviceless clock, kept on disk by what they depend on.

The text of the program, the chip, libtpu and the rules of pricing make the key. A change of the
compiler's own cost model changes none of them, so nothing is compiled again after it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pricing import digest, rules_of, versions

from tpu_inductor.aot.messages import CompileReply, CompileRequest
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.regions.canonical import NAME


@dataclass(frozen=True, slots=True)
class KernelPrice:
    """What the clock says of a program of one kernel, or why it says nothing.

    `program_us` is all of it, with what XLA puts around the kernel, and `time_us` the kernel alone.
    `compute_us` is the kernel's time of issuing bundles; `hbm_bytes` were moved by copies that the
    clock saw.
    """

    error: str = ""
    program_us: float = 0.0
    time_us: float = 0.0
    compute_us: float = 0.0
    hbm_bytes: int = 0
    vmem_bytes: int = 0
    is_trusted: bool = False
    seconds: float = 0.0

    @staticmethod
    def of(reply: CompileReply) -> "KernelPrice":
        """The answer of a compile worker."""
        price = reply.price
        if price is None:
            text = (reply.result.error or reply.unpriced).strip()
            return KernelPrice(text.split("\n")[0] or "no reason given", seconds=reply.seconds)
        # HLO names the call of a launcher after it: `region.1`.
        calls = [op for op in price.ops if op.name.split(".")[0] == NAME]
        return KernelPrice(
            "",
            round(price.time_us, 3),
            round(sum(op.cycles + op.stall_cycles for op in calls) / price.clock_mhz, 3),
            round(sum(op.cycles for op in calls) / price.clock_mhz, 3),
            price.hbm_bytes,
            price.vmem_bytes,
            price.trusted,
            round(reply.seconds, 1),
        )


class KernelPrices:
    """Prices programs through `pool`, each once, and keeps what could be priced in `file` if given.

    Raises ValueError where the file holds something else.
    """

    def __init__(self, pool: CompilerPool, file: Path | None) -> None:
        self._pool = pool
        self._file = file
        self._kept: dict[str, KernelPrice] = {}
        if file is not None and file.exists():
            self._kept = _read(file)

    def price(self, requests: Sequence[CompileRequest]) -> list[KernelPrice]:
        """One price for each request, in order."""
        keys = [key_of(request) for request in requests]
        todo = {k: r for k, r in zip(keys, requests, strict=True) if k not in self._kept}
        found = dict(self._kept)
        for key, reply in zip(todo, self._pool.run(todo.values()), strict=True):
            found[key] = KernelPrice.of(reply)
            if not found[key].error:
                self._kept[key] = found[key]
                self._write()
        return [found[key] for key in keys]

    def _write(self) -> None:
        if self._file is None:
            return
        # A run that is stopped while it writes loses nothing.
        part = self._file.with_suffix(".part")
        part.write_text(_as_text(self._kept.items()))
        part.replace(self._file)


def key_of(request: CompileRequest) -> str:
    """Equal for equal programs on one chip, under one compiler and one clock."""
    chip = request.target
    return digest(request.source, chip, *versions("libtpu").values(), rules_of(chip))


def _as_text(kept: Iterable[tuple[str, KernelPrice]]) -> str:
    lines = (f"{json.dumps(key)}: {json.dumps(asdict(price))}" for key, price in kept)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _read(file: Path) -> dict[str, KernelPrice]:
    try:
        return {key: KernelPrice(**values) for key, values in json.loads(file.read_text()).items()}
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{file} holds no prices of kernels: {error}. Delete it") from error
