"""The ways to run one case: eager, tpu_tile, its graph alone, inductor, and plain jax.jit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from cases import Case
from recorded import Recorder, first_tensor, plain_jit
from timing import Call, First, once


@dataclass(frozen=True, slots=True)
class Contender:
    """`first` is the first call, compilation included; None where it has been made elsewhere.

    `error` is the largest difference from eager, relative to the largest result.
    """

    call: Call
    first: First | None
    error: float


def contenders(case: Case, with_inductor: bool) -> dict[str, Contender]:
    """By name. `graph` and `jit` are absent where the case is not one graph of one program."""
    module, args = case.module, case.args
    first = once(lambda: module(*args))
    want = first.result
    found = {"eager": Contender(lambda: module(*args), first, 0.0)}
    auto, xla = Recorder({}), Recorder({"prefer": "xla"})
    found["tpu_tile"] = _compiled(case, auto.backend, want)
    if with_inductor:
        found["inductor"] = _compiled(case, "inductor", want)
    _compiled(case, xla.backend, want)
    if (graph := auto.only()) is not None:
        error = _error(graph.call_graph(), want)
        found["graph"] = Contender(graph.call_graph, None, error)
    if (graph := xla.only()) is not None:
        jit = plain_jit(graph)
        first = once(jit)
        found["jit"] = Contender(jit, first, _error(first.result, want))
    return found


def _compiled(case: Case, backend: str | Callable[..., Any], want: Any) -> Contender:
    run = torch.compile(case.module, backend=backend)
    first = once(lambda: run(*case.args))
    return Contender(lambda: run(*case.args), first, _error(first.result, want))


def _error(got: Any, want: Any) -> float:
    got, want = first_tensor(got).double(), first_tensor(want).double()
    return ((got - want).abs().max() / want.abs().max()).item()
