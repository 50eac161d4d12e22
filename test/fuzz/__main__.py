"""`python -m test.fuzz --minutes 60 --seed 0`: prints a program for each failure, and a summary."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from test.fuzz.compare import Difference
from test.fuzz.generate import generate
from test.fuzz.judge import Judge
from test.fuzz.program import Program
from test.fuzz.shrink import shrink
from test.fuzz.spell import spell
from test.fuzz.worker import Worker

LINE_SECONDS = 30
"""Between two lines of progress where the output is no terminal."""


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 where a program failed."""
    given = parse(arguments)
    options = {"target": given.target, "interpret": True} if given.target else {}
    console = Console(highlight=False, soft_wrap=True)
    run = Run(
        Judge(given.backend, options, given.ignore), given.seed, console, given.shrink, given.out
    )
    with Worker(run.judge) as worker, _Watch(console, given.minutes) as watch:
        for index in _indices(given.start, given.programs, given.minutes):
            run.take(worker, index)
            watch.show(run)
    console.print(run.summary(), markup=False)
    return 1 if run.failures else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m test.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--programs", type=int, help="at most so many")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn (0)")
    parser.add_argument("--start", type=int, default=0, help="the first program of the seed (0)")
    parser.add_argument("--backend", default="tpu_tile", help="of torch.compile (tpu_tile)")
    parser.add_argument("--target", help="a TPU whose kernels are interpreted, such as v5e")
    parser.add_argument("--shrink", type=int, default=80, help="runs to shrink a failure in (80)")
    parser.add_argument("--ignore", help="a regular expression of differences that are known")
    parser.add_argument("--out", type=Path, help="a folder for the failing programs")
    return parser.parse_args(arguments)


def _indices(start: int, count: int | None, minutes: float) -> Iterator[int]:
    end = time.monotonic() + 60 * minutes
    index = start
    while time.monotonic() < end and (count is None or index < start + count):
        yield index
        index += 1


@dataclass
class Run:
    """What has been judged so far. `failures` counts equal ones by what they have in common."""

    judge: Judge
    seed: int
    console: Console
    shrink_runs: int = 80
    out: Path | None = None
    programs: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def take(self, worker: Worker, index: int) -> None:
        """Judges program `index`; a failure of a new sort is shrunk and printed."""
        program = generate(f"{self.seed}:{index}")
        self.programs += 1
        found = worker(program)
        if found:
            small, found = _shrink(worker, program, found, self.shrink_runs)
            sign = signature(small, found[0])
            self.failures[sign] += 1
            if self.failures[sign] == 1:
                self._report(index, small, found)

    def _report(self, index: int, program: Program, found: tuple[Difference, ...]) -> None:
        again = f"python -m test.fuzz --seed {self.seed} --start {index} --programs 1"
        header = "\n".join([f"failure {len(self.failures)}; again: {again}", *map(str, found[:5])])
        text = spell(program, self.judge.backend, self.judge.options, header)
        self.console.print(
            Syntax(text, "python") if self.console.is_terminal else text, markup=False
        )
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / f"seed{self.seed}_{index}.py").write_text(text)

    def summary(self) -> str:
        total = sum(self.failures.values())
        lines = [f"{self.programs} programs, {total} failed, {len(self.failures)} sorts of failure"]
        lines += [f"{count:5} x {sign}" for sign, count in self.failures.most_common()]
        return "\n".join(lines)


def _shrink(
    worker: Worker, program: Program, found: tuple[Difference, ...], runs: int
) -> tuple[Program, tuple[Difference, ...]]:
    """The smallest program that differs in the same kind of thing, and how it differs."""
    verdicts = {program: found}

    def fails(candidate: Program) -> bool:
        verdicts[candidate] = worker(candidate)
        return any(
            (d.kind, d.place) == (found[0].kind, found[0].place) for d in verdicts[candidate]
        )

    small = shrink(program, fails, runs)
    return small, verdicts[small]


def signature(program: Program, first: Difference) -> str:
    """The same for programs that fail alike: the difference, and the calls that lead to it."""
    calls = sorted({s.template for s in program.statements})
    return f"{first.kind} {first.place}: {'; '.join(calls)}"


class _Watch:
    """Progress: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, minutes: float) -> None:
        self._console = console
        self._start = self._shown = time.monotonic()
        columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("starting", total=60 * minutes)

    def __enter__(self) -> "_Watch":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, run: Run) -> None:
        now = time.monotonic()
        text = f"{run.programs} programs, {len(run.failures)} sorts of failure"
        self._bar.update(self._task, completed=now - self._start, description=text)
        if not self._console.is_terminal and now - self._shown > LINE_SECONDS:
            self._shown = now
            self._console.print(f"{now - self._start:6.0f} s  {text}")


if __name__ == "__main__":
    sys.exit(main())
