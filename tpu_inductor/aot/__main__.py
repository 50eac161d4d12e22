"""Compiles the model of a Python file for TPUs that are not there, and prints what libtpu says.

$ python -m tpu_inductor.aot examples/llama.py --target v5e --target v6e --json report.json

The file defines `aot_example() -> (model, args, kwargs)`: a callable, mostly a torch module, with
what it is called with. It is compiled for inference; tensors may be on the meta device.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tpu_inductor.aot.pool import TIMEOUT_S, CompilerPool
from tpu_inductor.aot.require import require_libtpu, tpu_target
from tpu_inductor.errors import Unsupported
from tpu_inductor.reports.compile_model import aot_compile
from tpu_inductor.reports.compile_report import Report

Example: TypeAlias = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
"""A model, its positional and its keyword arguments."""

ENTRY = "aot_example"


def load_example(file: Path) -> Example:
    """What `aot_example` of a Python file returns. Raises Unsupported where there is none."""
    spec = importlib.util.spec_from_file_location(f"aot_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise Unsupported(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    # As when the file runs as a script, it finds its neighbours.
    sys.path.insert(0, str(file.parent.resolve()))
    spec.loader.exec_module(module)
    make = getattr(module, ENTRY, None)
    if not callable(make):
        raise Unsupported(
            f"{file} defines no {ENTRY}(). Add one that returns (model, args, kwargs): the module "
            "to compile, and what it is called with"
        )
    made = make()
    if not isinstance(made, tuple) or len(cast("tuple[Any, ...]", made)) != 3:
        raise Unsupported(f"{ENTRY}() of {file} must return (model, args, kwargs)")
    return cast("Example", made)


def compile_example(example: Example, target: str, pool: CompilerPool, console: Console) -> Report:
    """Compiles one example for one target, with a bar on the terminal."""
    model, args, kwargs = example
    columns = (TextColumn("{task.description}"), BarColumn())
    clock = (MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, *clock, console=console, transient=True) as progress, torch.no_grad():
        bar = progress.add_task(f"compiling for {target}", total=None)

        def tell(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        return aot_compile(model, *args, target=target, kwargs=kwargs, pool=pool, progress=tell)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 0: all compiles, 1: some kernel or program does not, 2: cannot be tried."""
    chosen = _parser().parse_args(arguments)
    console = Console(stderr=True)
    reports: list[Report] = []
    try:
        targets = [tpu_target(name).name for name in chosen.target or ["v5e"]]
        require_libtpu()
        example = load_example(chosen.file)
        with CompilerPool(chosen.jobs, chosen.timeout) as pool:
            for target in dict.fromkeys(targets):
                reports.append(compile_example(example, target, pool, console))
                _show(reports[-1])
    except Unsupported as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return 2
    if chosen.json:
        text = json.dumps([report.as_json() for report in reports], indent=1)
        chosen.json.write_text(f"{text}\n")
    return 0 if all(report.ok for report in reports) else 1


def _show(report: Report) -> None:
    console = Console()
    console.print(report.table())
    console.print(f"\n{report.summary}; times are estimates, nothing ran\n", highlight=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tpu_inductor.aot",
        description="Compile a model for TPUs that are not there.",
    )
    parser.add_argument("file", type=Path, help=f"a Python file that defines {ENTRY}()")
    parser.add_argument("--target", action="append", help="v4, v5e (default), v5p, v6e or tpu7x")
    parser.add_argument("--json", type=Path, help="also write the reports to this file")
    parser.add_argument("--jobs", type=int, help="compilations at once; as many as cores")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each")
    return parser


if __name__ == "__main__":
    sys.exit(main())
