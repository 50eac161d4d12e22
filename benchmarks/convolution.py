"""Measures convolutional models on the CPU target against eager, both on one and the same core.

python benchmarks/convolution.py                                   all models
python benchmarks/convolution.py resnet18_64 unet2d --batch 1 2    these, for these batches
python benchmarks/convolution.py --train                           forward and backward
python benchmarks/convolution.py --json docs/convolution.json      also write the figures, in place
                                  of those of the same models, and docs/convolution.md with them

A call costs the seconds that the processor works for it: on one core these are the seconds of an
idle machine, and what else runs there does not count. Seconds on the clock are recorded too.
"""

import argparse
import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from cases.case import Case
from cases.convolutions import convnext, mobilenet_v3, resnet18, resnet50, unet2d
from convolution_page import page
from rich.console import Console
from rich.table import Table
from run import host
from timing import in_turn, once

BAR = 1.15
"""What a call may cost, in calls of eager."""

Model = tuple[Callable[[int, int, torch.dtype], Case], int, torch.dtype]

Records = dict[str, dict[str, float | str]]

F32, BF16 = torch.float32, torch.bfloat16
MODELS: dict[str, Model] = {
    "resnet50": (resnet50, 224, F32),
    "resnet18_64": (resnet18, 64, F32),
    "resnet18_224": (resnet18, 224, F32),
    "resnet18_64_bf16": (resnet18, 64, BF16),
    "resnet18_224_bf16": (resnet18, 224, BF16),
    "mobilenet_v3": (mobilenet_v3, 224, F32),
    "convnext": (convnext, 224, F32),
    "unet2d": (unet2d, 32, F32),
}


def measure(model: Model, batch: int, seconds: float, trains: bool) -> dict[str, float | str]:
    """The record of one model, as JSON holds it. `error` is relative to the largest result.

    With `trains` a call is a forward and a backward, and its result the gradient of the input.
    """
    make, size, dtype = model
    torch._dynamo.reset()
    torch.manual_seed(0)
    case = make(batch, size, dtype)
    # Training differentiates what inference computes: dropout would make the errors random.
    case.module.eval()
    compiled = torch.compile(case.module, backend="tpu_tile")
    run = _gradient if trains else _result
    first = once(lambda: run(compiled, case.args))
    want = run(case.module.double(), tuple(_double(a) for a in case.args))
    case.module.to(dtype)
    calls = {
        "eager": lambda: run(case.module, case.args),
        "tpu_tile": lambda: run(compiled, case.args),
    }
    errors = {n: _error(call(), want) for n, call in calls.items()}
    times = in_turn(calls, rounds=20, limit=seconds)
    work = {n: t.cpu for n, t in times.items()}
    return {
        "date": datetime.date.today().isoformat(),
        "load": os.getloadavg()[0],
        "rounds": len(times["eager"].rounds),
        "first_s": first.seconds,
        "first_cpu_s": first.cpu_seconds,
        **{f"{n}_cpu_ms": 1e3 * t.median for n, t in work.items()},
        **{f"{n}_ms": 1e3 * t.median for n, t in times.items()},
        **{f"{n}_error": e for n, e in errors.items()},
        "ratio": work["tpu_tile"].over(work["eager"]),
        "clock_ratio": times["tpu_tile"].over(times["eager"]),
    }


Run = Callable[..., torch.Tensor]


def _result(module: Run, args: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with torch.no_grad():
        return module(*args)


def _gradient(module: Run, args: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Of the input, for a loss of squares; those of all parameters are made too, and dropped."""
    x, *others = args
    x = x.detach().requires_grad_()
    loss = module(x, *others).square().mean()
    parameters = [p for p in _parameters(module) if p.requires_grad]
    return torch.autograd.grad(loss, (x, *parameters), allow_unused=True)[0]


def _parameters(module: Run) -> list[torch.nn.Parameter]:
    assert isinstance(module, torch.nn.Module)
    return list(module.parameters())


def _double(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def _error(got: torch.Tensor, want: torch.Tensor) -> float:
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def make_table(records: Records) -> Table:
    columns = ("first_cpu_s", "eager_cpu_ms", "tpu_tile_cpu_ms", "ratio", "clock_ratio")
    errors = ("eager_error", "tpu_tile_error")
    table = Table(title=f"medians on one core; bar {BAR} of eager")
    table.add_column("model")
    for name in (*columns, *errors):
        table.add_column(name, justify="right")
    for name, record in records.items():
        cells = [f"{record[c]:.2f}" for c in columns] + [f"{record[c]:.0e}" for c in errors]
        style = "green" if float(record["ratio"]) <= BAR else "red"
        table.add_row(name, *cells, style=style)
    return table


def _write(file: Path, records: Records, core: int) -> None:
    """Puts `records` among those that the file has, and writes the page beside it."""
    before: Records = json.loads(file.read_text())["models"] if file.exists() else {}
    where = {"core": core, "instructions": torch.backends.cpu.get_cpu_capability()}
    record = {"host": host() | where, "bar": BAR, "models": before | records}
    file.write_text(json.dumps(record, indent=2) + "\n")
    file.with_suffix(".md").write_text(page(record))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benchmark convolutions on the CPU target")
    parser.add_argument("models", nargs="*", metavar="model", help=", ".join(MODELS))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each model and batch")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    if unknown := sorted(set(given.models) - set(MODELS)):
        parser.error(f"unknown models {', '.join(unknown)}; there are {', '.join(MODELS)}")
    return given


def main() -> None:
    given = _arguments()
    core = max(os.sched_getaffinity(0))
    # Before jax makes its threads, whose number is that of the cores which it may use.
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    console = Console()
    records: Records = {}
    for model in given.models or MODELS:
        for batch in given.batch:
            name = f"{model}{' train' if given.train else ''} x {batch}"
            with console.status(name):
                records[name] = measure(MODELS[model], batch, given.seconds, given.train)
            if given.json:
                _write(given.json, records, core)
    console.print(make_table(records))


if __name__ == "__main__":
    main()
