"""What a run of a program shows, as plain values that two runs can be compared by.

A call is watched three times: after it returned, after the gradients were taken, and after each
tensor that the caller holds was written to, which shows what shares memory with what. Before the
next call every storage is shrunk to nothing, as its owner may do.
"""

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor at one moment. Its data is a dense copy.

    `home` is the first tensor of the same storage, `twin` the first that is the same object.
    """

    label: str
    data: torch.Tensor
    stride: tuple[int, ...]
    offset: int
    home: str
    twin: str
    requires_grad: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """The call ended in an exception; `place` is the innermost line of the traceback."""

    label: str
    kind: str
    message: str
    place: str


Sight: TypeAlias = Seen | Raised


def play(
    fn: Function,
    make_inputs: Function,
    calls: Sequence[tuple[int, ...]],
    training: bool,
    under: AbstractContextManager[object],
    mark_dynamic: bool = False,
) -> list[list[Sight]]:
    """What each call of `fn` shows, in order; the calls themselves run in the context `under`."""
    seen: list[list[Sight]] = []
    for call in calls:
        args = make_inputs(*call)
        if mark_dynamic:
            for arg in args:
                torch._dynamo.maybe_mark_dynamic(arg, list(range(arg.dim())))
        seen.append(list(_play_call(fn, args, training, under)))
    return seen


def _play_call(
    fn: Function,
    args: Sequence[torch.Tensor],
    training: bool,
    under: AbstractContextManager[object],
) -> Iterator[Sight]:
    torch.manual_seed(0)
    try:
        with under:
            results = fn(*args)
        held = _name(args, results)
        yield from _look("", held)
        if training:
            with under:
                gradients = _take_gradients(args, results)
            yield from _look("", gradients)
    except Exception as error:  # whatever a user would see
        yield _raised("the call", error)
        return
    try:
        yield from _disturb(held)
    except Exception as error:
        yield _raised("its owner's writes", error)


def _disturb(held: Sequence[tuple[str, torch.Tensor]]) -> Iterator[Sight]:
    """Writes to the results one by one, then to the arguments; then gives up all memory."""
    with torch.no_grad():
        for label, tensor in held:
            if label.startswith("result"):
                _write(tensor)
                yield from _look(f"after a write to {label}, ", held)
        for _, tensor in held:
            _write(tensor)
        yield from _look("after writes to all, ", held)
        for _, tensor in held:
            tensor.untyped_storage().resize_(0)


def _name(args: Sequence[torch.Tensor], results: Any) -> list[tuple[str, torch.Tensor]]:
    named = [(f"argument {i}", t) for i, t in enumerate(args)]
    leaves = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
    return [*named, *((f"result {i}", t) for i, t in enumerate(leaves))]


def _take_gradients(args: Sequence[torch.Tensor], results: Any) -> list[tuple[str, torch.Tensor]]:
    """Of the results, weighted by numbers near one, in the arguments that ask for them."""
    wrt = {f"gradient of argument {i}": t for i, t in enumerate(args) if t.requires_grad}
    outs = [r for r in pytree.tree_leaves(results) if r.requires_grad]
    if not outs or not wrt:
        return []
    rng = torch.Generator().manual_seed(1)
    weights = [(torch.rand(r.shape, generator=rng) + 0.5).to(r.dtype) for r in outs]
    grads = torch.autograd.grad(outs, list(wrt.values()), weights, allow_unused=True)
    return [(label, g) for label, g in zip(wrt, grads, strict=True) if g is not None]


def _look(moment: str, named: Sequence[tuple[str, torch.Tensor]]) -> Iterator[Seen]:
    homes: dict[int, str] = {}
    twins: dict[int, str] = {}
    for label, tensor in named:
        pointer = tensor.untyped_storage().data_ptr() if tensor.numel() else 0
        home = homes.setdefault(pointer, label) if pointer else label
        twin = twins.setdefault(id(tensor), label)
        data = tensor.detach().clone(memory_format=torch.contiguous_format)
        stride, offset = tensor.stride(), int(tensor.storage_offset())
        yield Seen(moment + label, data, stride, offset, home, twin, tensor.requires_grad)


def _write(tensor: torch.Tensor) -> None:
    """Changes every element; a tensor that overlaps itself is filled."""
    tensor = tensor.detach()
    if tensor.dtype is torch.bool:
        tensor.fill_(True)
    else:
        tensor.fill_(math.pi if tensor.is_floating_point() else 7)


def _raised(label: str, error: BaseException) -> Raised:
    inner = error
    while isinstance(getattr(inner, "inner_exception", None), BaseException):
        inner = inner.inner_exception
    message = str(inner).split("\n", 1)[0][:300]
    return Raised(label, type(inner).__name__, message, _innermost(inner))


def _innermost(error: BaseException) -> str:
    """The last function of the compiler that the traceback passes, or "torch"."""
    frames = [f.f_code for f, _ in traceback.walk_tb(error.__traceback__)]
    ours = [c for c in frames if "/tpu_inductor/" in c.co_filename]
    if not ours:
        return "torch"
    return f"{ours[-1].co_filename.rpartition('/tpu_inductor/')[2]}:{ours[-1].co_name}"
