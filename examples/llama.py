"""Compiles a small Llama from transformers, compares it with eager, and shows what became of it.

python examples/llama.py                 compile, run, generate
python examples/llama.py --target v6e    what the compiler would do for a TPU v6e; nothing is run
python -m tpu_inductor.aot examples/llama.py --target v6e    compile for one that need not be there
"""

import argparse
import os
import time
from collections.abc import Callable

# Only the CPU runs programs so far; without this JAX looks for a TPU first.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

import tpu_inductor

PROMPT, NEW = 32, 32
LENGTH = PROMPT + NEW
"""Every call has this many tokens, so that one compilation serves all of them."""

CONFIG = LlamaConfig(
    vocab_size=2048,
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=LENGTH,
    use_cache=False,
)

console = Console()


class Logits(torch.nn.Module):
    """Token numbers (batch, length) to logits (batch, length, vocabulary)."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).logits


def make_model() -> tuple[Logits, torch.Tensor]:
    torch.manual_seed(0)
    model = Logits(LlamaForCausalLM(CONFIG)).eval()
    ids = torch.zeros(1, LENGTH, dtype=torch.int64)
    ids[:, :PROMPT] = torch.randint(CONFIG.vocab_size, (1, PROMPT))
    return model, ids


def aot_example() -> tuple[Logits, tuple[torch.Tensor], dict[str, object]]:
    """What `python -m tpu_inductor.aot` compiles: a module with its arguments."""
    model, ids = make_model()
    return model, (ids,), {}


def generate(model: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor) -> list[int]:
    """NEW greedy tokens. What follows a position cannot change it, so the rest may be anything."""
    ids = ids.clone()
    for end in range(PROMPT, LENGTH):
        ids[:, end] = model(ids)[:, end - 1].argmax(-1)
    return ids[0, PROMPT:].tolist()


def milliseconds(fn: Callable[..., object], *args: object, calls: int = 20) -> float:
    """The least time of a call."""
    times: list[float] = []
    for _ in range(calls):
        start = time.perf_counter()
        fn(*args)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def milliseconds_in_eager(model: Logits, ids: torch.Tensor) -> float:
    """The better of one thread and all: on a busy machine more threads only wait for each other."""
    threads = torch.get_num_threads()
    times: list[float] = []
    for n in (1, threads):
        torch.set_num_threads(n)
        times.append(milliseconds(model, ids))
    return min(times)


def compare(model: Logits, ids: torch.Tensor) -> bool:
    """Compiles, runs and generates. Whether everything agrees with eager."""
    compiled = torch.compile(model, backend="tpu_tile")
    start = time.perf_counter()
    got = compiled(ids)
    first = time.perf_counter() - start
    want = model(ids)
    difference = ((got - want).abs().max() / want.abs().max()).item()
    tokens, eager_tokens = generate(compiled, ids), generate(model, ids)
    work = torch._dynamo.utils.counters["tpu_tile"]

    table = Table(title="Llama on the CPU", title_justify="left", show_header=False)
    table.add_row("parameters", f"{sum(p.numel() for p in model.parameters()):,}")
    table.add_row("logits, largest relative difference", f"{difference:.1e}")
    same = sum(a == b for a, b in zip(tokens, eager_tokens, strict=True))
    table.add_row("greedy tokens equal to eager's", f"{same} of {NEW}")
    table.add_row("first call, compilation included", f"{first:.2f} s")
    table.add_row("a call, compiled", f"{milliseconds(compiled, ids):.2f} ms")
    table.add_row("a call, eager", f"{milliseconds_in_eager(model, ids):.2f} ms")
    table.add_row("programs (dispatches) a call", str(work["programs"]))
    table.add_row("Pallas kernels", str(work["kernels"]))
    table.add_row("XLA operations", str(work["xla_ops"]))
    table.add_row("eager fallbacks", str(work["eager_ops"]))
    console.print(table)
    return difference < 1e-4 and same == NEW


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile and explain a Llama")
    parser.add_argument("--target", help="explain for this TPU generation and run nothing")
    target = parser.parse_args().target
    model, ids = make_model()
    with torch.no_grad():
        agrees = target is not None or compare(model, ids)
        explanation = tpu_inductor.explain(model, ids, options={"target": target})
    if target is not None:
        console.print(str(explanation), highlight=False, markup=False, soft_wrap=True)
    console.print(explanation.table())
    if not agrees:
        raise SystemExit("the compiled model disagrees with eager")


if __name__ == "__main__":
    main()
