"""What libtpu says of the kernels and programs of a model: a frozen value, its text and tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tpu_inductor.aot.messages import DevicelessResult
from tpu_inductor.aot.price import Price
from tpu_inductor.reports.blame import Problem
from tpu_inductor.reports.explain_region import RegionReport


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One distinct kernel, compiled alone. `calls` regions of the model run it.

    `region` is the first of them. `price` is an estimate, and None where none was wanted.
    """

    name: str
    program: str
    calls: int
    region: RegionReport
    result: DevicelessResult
    price: Price | None
    problem: Problem | None

    @property
    def ok(self) -> bool:
        return self.result.ok

    @property
    def vmem_bytes(self) -> int:
        """What the compiler used, or what the schedule planned where it does not tell."""
        planned = self.region.schedule.vmem_bytes if self.region.schedule else 0
        return self.result.vmem_bytes or planned

    @property
    def vmem_source(self) -> str:
        """`compiler` or `schedule`."""
        return "compiler" if self.result.vmem_bytes else "schedule"

    @property
    def hbm_bytes(self) -> int:
        """Bytes that the compiled code moves, or that the schedule expects to."""
        planned = self.region.schedule.cost.hbm_bytes if self.region.schedule else 0
        return self.price.hbm_bytes if self.price else planned

    def __str__(self) -> str:
        times = f" x {self.calls}" if self.calls > 1 else ""
        head = f"  kernel {self.name}{times}: "
        operators = f"    ops      {', '.join(self.region.operators)}"
        places = [f"    at       {place}" for place in self.region.places]
        if self.problem:
            return "\n".join([f"{head}does not compile", operators, *_problem_lines(self.problem)])
        sizes = (
            f"    sizes    VMEM {_size(self.vmem_bytes)} ({self.vmem_source}), "
            f"HBM {_size(self.hbm_bytes)}, code {_size(self.result.code_bytes)}"
        )
        return "\n".join([f"{head}compiles, {_time(self.price)}", operators, *places, sizes])

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kernel": self.name,
            "program": self.program,
            "calls": self.calls,
            "operators": list(self.region.operators),
            "places": list(self.region.places),
            "tiles": self.region.tiles,
            "vmem_bytes": self.vmem_bytes,
            "vmem_source": self.vmem_source,
            "hbm_bytes": self.hbm_bytes,
            "code_bytes": self.result.code_bytes,
            **_outcome(self.result, self.price, self.problem),
        }


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """One program, compiled as a whole."""

    name: str
    result: DevicelessResult
    price: Price | None
    problem: Problem | None

    @property
    def ok(self) -> bool:
        return self.result.ok

    def __str__(self) -> str:
        if self.problem:
            lines = _problem_lines(self.problem)
            return "\n".join([f"program {self.name}: does not compile", *lines])
        result = self.result
        return (
            f"program {self.name}: compiles, {_time(self.price)}; arguments "
            f"{_size(result.argument_bytes)}, outputs {_size(result.output_bytes)}, "
            f"temporaries {_size(result.temporary_bytes)}, code {_size(result.code_bytes)}"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "program": self.name,
            "argument_bytes": self.result.argument_bytes,
            "output_bytes": self.result.output_bytes,
            "temporary_bytes": self.result.temporary_bytes,
            "code_bytes": self.result.code_bytes,
            **_outcome(self.result, self.price, self.problem),
        }


@dataclass(frozen=True, slots=True)
class EagerReport:
    """What runs in torch between programs: one call, or a graph as a whole."""

    name: str
    place: str
    reason: str

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return f"eager {self.name}{where}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"eager": self.name, "place": self.place, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Report:
    """A model compiled for one target. `str` is all there is, `table()` an overview.

    Times are estimates, made from the compiled code; nothing has run on a TPU.
    """

    target: str
    programs: tuple[ProgramReport, ...]
    kernels: tuple[KernelReport, ...]
    eager: tuple[EagerReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every program and every kernel compiles; eager calls do not matter."""
        return all(part.ok for part in (*self.programs, *self.kernels))

    @property
    def summary(self) -> str:
        """`v5e: 3 of 3 kernels and 1 of 1 programs compile, 0 eager calls`."""
        kernels, programs = (
            f"{sum(p.ok for p in parts)} of {len(parts)}" for parts in (self.kernels, self.programs)
        )
        calls = f"{len(self.eager)} eager call{'' if len(self.eager) == 1 else 's'}"
        return f"{self.target}: {kernels} kernels and {programs} programs compile, {calls}"

    def __str__(self) -> str:
        lines = [self.summary]
        for program in self.programs:
            lines.append(str(program))
            lines += [str(kernel) for kernel in self.kernels if kernel.program == program.name]
        return "\n".join([*lines, *map(str, self.eager)]) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON; sizes in bytes, times in us."""
        return {
            "target": self.target,
            "ok": self.ok,
            "programs": [p.as_json() for p in self.programs],
            "kernels": [k.as_json() for k in self.kernels],
            "eager": [e.as_json() for e in self.eager],
        }

    def table(self) -> Group:
        """Kernels, programs, eager calls and errors, to be printed with rich."""
        parts: list[Table | Text] = [_kernel_table(self), _program_table(self)]
        parts += [_eager_table(self)] if self.eager else []
        problems = [part for part in (*self.kernels, *self.programs) if part.problem]
        parts += [Text(f"\n{part.name}: {part.problem}", style="red") for part in problems]
        return Group(*parts)


def _kernel_table(report: Report) -> Table:
    table = _new_table(
        f"Kernels for {report.target}",
        ("kernel", "n", "operators", "compiles", "VMEM", "HBM", "code", "estimated us"),
        numbers=("n", "VMEM", "HBM", "code", "estimated us"),
    )
    for k in report.kernels:
        vmem = _size(k.vmem_bytes) + ("" if k.vmem_source == "compiler" else " planned")
        sizes = (vmem, _size(k.hbm_bytes), _size(k.result.code_bytes), _microseconds(k.price))
        cells = sizes if k.ok else ("",) * 4
        table.add_row(k.name, str(k.calls), ", ".join(k.region.words), _verdict(k.ok), *cells)
    return table


def _program_table(report: Report) -> Table:
    sizes = ("arguments", "outputs", "temporaries", "code")
    table = _new_table(
        f"Programs for {report.target}",
        ("program", "compiles", *sizes, "estimated us"),
        numbers=(*sizes, "estimated us"),
    )
    for p in report.programs:
        r = p.result
        parts = (r.argument_bytes, r.output_bytes, r.temporary_bytes, r.code_bytes)
        cells = (*map(_size, parts), _microseconds(p.price)) if p.ok else ("",) * 5
        table.add_row(p.name, _verdict(p.ok), *cells)
    return table


def _eager_table(report: Report) -> Table:
    table = _new_table("Runs in torch", ("operator", "at", "why"), numbers=())
    for e in report.eager:
        table.add_row(e.name, Text(e.place), Text(e.reason))
    return table


def _new_table(title: str, headings: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        justify = "right" if heading in numbers else "left"
        table.add_column(heading, justify=justify, overflow="fold")
    return table


def _verdict(ok: bool) -> Text:
    return Text("yes") if ok else Text("no", style="red")


def _problem_lines(problem: Problem) -> Iterator[str]:
    return (f"    {line}" for line in str(problem).splitlines())


def _time(price: Price | None) -> str:
    if price is None:
        return "time not estimated"
    return f"{price.time_us:.1f} us estimated" + ("" if price.trusted else ", not to be trusted")


def _microseconds(price: Price | None) -> str:
    if price is None:
        return ""
    return f"{price.time_us:.1f}" + ("" if price.trusted else " ?")


def _size(n: int) -> str:
    """Bytes in the largest binary unit that leaves a number of at least one."""
    size = float(n)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _outcome(
    result: DevicelessResult, price: Price | None, problem: Problem | None
) -> Mapping[str, Any]:
    return {
        "ok": result.ok,
        "time_us_estimated": price.time_us if price else None,
        "time_is_trusted": price.trusted if price else None,
        "error": str(problem) if problem else "",
    }
