"""What every stage made of a graph, as text: numbered files, torch's own logs, tlparse artefacts.

    tpu_tile_debug/0003_forward/  0_fx.py  1_graph.txt  2_regions.txt  3_schedule.txt
                                  4_program.py  5_steps.txt  fallbacks.txt

The text of a value is its `str`. The pipeline calls an observer between stages; with the option
`debug` off no file is written, and only `TORCH_LOGS=output_code` and TORCH_TRACE see anything.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from torch._logging import getArtifactLogger, trace_structured
from torch.fx import GraphModule

from tpu_inductor.codegen.program import Program
from tpu_inductor.debug.record import record_programs
from tpu_inductor.graph.attrs import EagerCall
from tpu_inductor.graph.core import Eqn
from tpu_inductor.options import Options
from tpu_inductor.runtime.compiled import Plan

Observer: TypeAlias = Callable[[str, object], None]
"""Called with the name of a stage and its result."""

FILES = {
    "fx": "0_fx.py",
    "graph": "1_graph.txt",
    "simplified": "1_graph_simplified.txt",
    "regions": "2_regions.txt",
    "tuning": "3_tuning.txt",
    "schedule": "3_schedule.txt",
    "steps": "5_steps.txt",
    "fallbacks": "fallbacks.txt",
}
"""Where each stage goes; programs are 4_program.py, 4_program_1.py, ..."""

# A child of `torch`, because TORCH_LOGS sets up handlers for that tree alone.
_output_code = getArtifactLogger("torch.tpu_inductor", "output_code")


@dataclass(frozen=True, slots=True)
class Dump:
    """The folder of one graph. `create` finds the next free number, also among processes."""

    path: Path

    @staticmethod
    def create(root: Path, graph_name: str) -> "Dump":
        root.mkdir(parents=True, exist_ok=True)
        safe = re.sub(r"[^\w.-]+", "_", graph_name) or "graph"
        number = 1 + max((_number(p) for p in root.iterdir()), default=-1)
        while not _reserve(root, number):
            number += 1
        return Dump((root / f".{number:04d}").rename(root / f"{number:04d}_{safe}"))

    def write(self, file: str, text: str) -> None:
        (self.path / file).write_text(text if text.endswith("\n") else f"{text}\n")

    def stage(self, stage: str, value: object) -> None:
        """Writes what a stage made; the plan also writes programs and what `replay` needs."""
        self.write(FILES.get(stage, f"{stage}.txt"), str(value))
        if isinstance(value, Plan):
            self._plan(value)

    def _plan(self, plan: Plan) -> None:
        for file, program in program_files(plan):
            self.write(file, program.source)
        self.write(FILES["fallbacks"], fallbacks_text(plan))
        self.write("replay.txt", record_programs(plan, program_files(plan), self.path))


def _reserve(root: Path, number: int) -> bool:
    """Whether `number` is now ours: a folder that carries the number alone is made atomically."""
    reserved = root / f".{number:04d}"
    try:
        reserved.mkdir()
    except FileExistsError:
        return False
    # Another process may have reserved this number and given its folder the final name since.
    if next(root.glob(f"{number:04d}_*"), None) is None:
        return True
    reserved.rmdir()
    return False


def _number(path: Path) -> int:
    found = re.match(r"\.?(\d{4,})", path.name)
    return int(found[1]) if found else -1


def program_files(plan: Plan) -> tuple[tuple[str, Program], ...]:
    """The programs of a plan, each with the name of its file in a dump."""
    programs = [s for s in plan.steps if isinstance(s, Program)]
    names = ("4_program.py", *(f"4_program_{i}.py" for i in range(1, len(programs))))
    return tuple(zip(names, programs, strict=False))


def fallbacks_text(plan: Plan) -> str:
    """One line for each ATen call that runs in torch: what, why, where."""
    lines = [
        f"{step.attrs.target}: {step.attrs.reason} ({step.origin.place})"
        for step in plan.steps
        if isinstance(step, Eqn) and isinstance(step.attrs, EagerCall)
    ]
    return "\n".join(lines) or "none"


def observe_graph(options: Options, name: str, gm: GraphModule) -> Observer:
    """The observer that one compilation of `gm` needs; it has seen the FX graph already."""
    dump = Dump.create(options.debug_dir, name) if options.debug else None

    def observe(stage: str, value: object) -> None:
        _trace(f"tpu_tile_{name}_{stage}", lambda: str(value))
        if isinstance(value, Plan):
            _log_programs(value)
        if dump is not None:
            dump.stage(stage, value)

    if dump is not None:
        dump.write(FILES["fx"], gm.print_readable(print_output=False))
    return observe


def _log_programs(plan: Plan) -> None:
    for file, program in program_files(plan):
        _output_code.debug("%s of graph %s:\n%s", file, plan.name, program.source)
        _trace(f"tpu_tile_{program.name}", lambda source=program.source: source)


def _trace(name: str, text: Callable[[], str]) -> None:
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "string"},
        payload_fn=text,
    )
