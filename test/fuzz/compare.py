"""The differences between what eager shows and what a compiled function shows.

Not compared: strides of dimensions with at most one element and of empty tensors, which address
nothing; the payload and the sign of NaN; denormal results where eager has zero or the reverse.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from test.fuzz.noise import RELATIVE
from test.fuzz.observe import Raised, Seen, Sight

FACTOR = 8.0
"""Of the largest change that noise makes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind` and `where` say what two backends have in common, `text` tells this one.

    `place` is the function of the compiler that raised.
    """

    kind: str
    where: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.text}" + f" ({self.place})" * bool(self.place)


def compare(
    want: Sequence[Sequence[Sight]],
    got: Sequence[Sequence[Sight]],
    noisy: Sequence[Sequence[Sequence[Sight]]],
) -> Iterator[Difference]:
    """Differences call by call; `noisy` are further eager runs, with noise."""
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        runs = [run[i] for run in noisy]
        for difference in _compare_call(a, b, runs):
            yield replace(difference, where=f"call {i}, {difference.where}")


def _compare_call(
    want: Sequence[Sight], got: Sequence[Sight], noisy: Sequence[Sequence[Sight]]
) -> Iterator[Difference]:
    for i, a in enumerate(want):
        b = got[i] if i < len(got) else None
        if isinstance(a, Raised) or isinstance(b, Raised) or b is None:
            yield from _compare_raised(a, b)
            return
        runs = [run[i] for run in noisy if i < len(run)]
        yield from compare_seen(a, b, [r for r in runs if isinstance(r, Seen)])
    if len(got) > len(want):
        yield from _compare_raised(None, got[len(want)])


def _compare_raised(want: Sight | None, got: Sight | None) -> Iterator[Difference]:
    """At least one of the two is an exception, or missing."""
    if got is None and want is not None:
        yield Difference("results", want.label, "is missing")
    elif isinstance(got, Raised) and not isinstance(want, Raised):
        yield Difference(f"raises {got.kind}", got.label, got.message, got.place)
    elif isinstance(got, Seen) and want is None:
        yield Difference("results", got.label, "eager has no such result")
    elif isinstance(want, Raised) and not isinstance(got, Raised):
        yield Difference("does not raise", want.label, f"{want.kind}: {want.message}")
    elif isinstance(want, Raised) and isinstance(got, Raised) and want.kind != got.kind:
        text = f"{got.message}; eager: {want.message}"
        yield Difference(f"raises {got.kind} for {want.kind}", got.label, text, got.place)


def compare_seen(want: Seen, got: Seen, noisy: Sequence[Seen]) -> Iterator[Difference]:
    """How `got` differs from `want`; values are compared where types and shapes agree."""

    def differ(kind: str, a: object, b: object) -> Iterator[Difference]:
        if a != b:
            yield Difference(kind, want.label, f"{b} is not {a}")

    yield from differ("dtype", want.data.dtype, got.data.dtype)
    yield from differ("shape", tuple(want.data.shape), tuple(got.data.shape))
    if (want.data.dtype, want.data.shape) != (got.data.dtype, got.data.shape):
        return
    if want.data.numel():
        strides = zip(want.data.shape, want.stride, got.stride, strict=True)
        if any(n > 1 and a != b for n, a, b in strides):
            yield from differ("strides", want.stride, got.stride)
        yield from differ("offset", want.offset, got.offset)
    yield from differ("memory shared", want.home, got.home)
    yield from differ("same object", want.twin, got.twin)
    yield from differ("requires_grad", want.requires_grad, got.requires_grad)
    runs = [n.data for n in noisy if n.data.shape == want.data.shape]
    yield from compare_values(want.label, want.data, got.data, runs)


def compare_values(
    label: str, want: torch.Tensor, got: torch.Tensor, noisy: Sequence[torch.Tensor]
) -> Iterator[Difference]:
    wrong = ~is_near(got, want, noisy)
    if wrong.any():
        yield Difference("value", label, _tell(wrong, got, want))
        return
    if want.is_floating_point():
        settled = torch.stack([want, *noisy]).signbit()
        signs = (want == 0) & (got == 0) & (want.signbit() != got.signbit())
        signs &= (settled == settled[0]).all(0)
        if signs.any():
            yield Difference("sign of zero", label, _tell(signs, got, want))


def _tell(places: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> str:
    first = [tuple(p) for p in places.nonzero()[:3].tolist()]
    items = [f"{list(p)} is {got[p].item()!r}, not {want[p].item()!r}" for p in first]
    return f"{int(places.sum())} of {want.numel()} elements: {'; '.join(items)}"


def is_near(got: torch.Tensor, want: torch.Tensor, noisy: Sequence[torch.Tensor]) -> torch.Tensor:
    """Elementwise: equal; or a float as near as noise allows; or what noise changes altogether."""
    same = (got == want) | (got.isnan() & want.isnan())
    runs = torch.stack([want, *noisy])
    if not want.is_floating_point():
        return same | (runs != want).any(0)
    a, b, wide = got.double(), want.double(), runs.double()
    spread = (wide - b).abs().nan_to_num(0, 0, 0).amax(0)
    ulp, tiny = 2 * RELATIVE.get(want.dtype, 0), torch.finfo(want.dtype).tiny
    near = (a - b).abs() <= FACTOR * spread + ulp * b.abs() + tiny
    finite = runs.isfinite()
    unsettled = (finite != finite[0]).any(0) | (runs.isnan() != runs[0].isnan()).any(0)
    unsettled |= (runs.isinf() & (runs != want)).any(0)
    return same | near | unsettled
