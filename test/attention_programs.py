"""Attention as people spell it: functions of q, k, v and what else they take."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

LENGTH, WIDTH = 256, 32


@dataclass(frozen=True)
class Program:
    """`function(*tensors)`, and whether something has to run beside its one kernel."""

    name: str
    function: Callable[..., Tensor]
    tensors: tuple[Tensor, ...]
    alone: bool = True


def qkv(
    heads: int = 2,
    queries: int = LENGTH,
    keys: int = LENGTH,
    width: int = WIDTH,
    shared: int = 1,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    q = torch.randn(1, heads, queries, width).to(dtype)
    k, v = (torch.randn(1, heads // shared, keys, width).to(dtype) for _ in range(2))
    return q, k, v


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def shared_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def repeated_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(
        q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
    )


def with_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def by_matmul(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.2
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


def by_bmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 8, -1), v)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The division comes last."""
    scores = q @ k.mT / 8
    grown = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (grown @ v) / grown.sum(-1, keepdim=True)


def with_tril(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    hidden = torch.full((LENGTH, LENGTH), -math.inf).triu(1)
    return torch.softmax(q @ k.mT / 8 + hidden, -1) @ v


def with_finite_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    at = torch.arange(LENGTH)
    scores = (q @ k.mT / 8).masked_fill(at[:, None] < at, torch.finfo(q.dtype).min)
    return torch.softmax(scores, -1) @ v


def windowed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    at = torch.arange(LENGTH)
    seen = (at[:, None] >= at) & (at[:, None] - at < 64)
    return torch.softmax((q @ k.mT / 8).masked_fill(~seen, -math.inf), -1) @ v


def with_prefix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    at = torch.arange(LENGTH)
    seen = (at[:, None] >= at) | (at < 96)
    return torch.softmax((q @ k.mT / 8).masked_fill(~seen, -math.inf), -1) @ v


def with_alibi(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    at = torch.arange(LENGTH)
    bias = -(at[:, None] - at).abs() * slopes[:, None, None]
    return torch.softmax(q @ k.mT / 8 + bias, -1) @ v


def with_soft_cap(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.tanh(q @ k.mT / 8 / 30) * 30, -1) @ v


def with_sink(q: Tensor, k: Tensor, v: Tensor, sink: Tensor) -> Tensor:
    scores = q @ k.mT / 8
    total = torch.logaddexp(torch.logsumexp(scores, -1, keepdim=True), sink[:, None, None])
    return torch.exp(scores - total) @ v


def differential(q: Tensor, k: Tensor, v: Tensor, q2: Tensor, k2: Tensor) -> Tensor:
    return (torch.softmax(q @ k.mT / 8, -1) - 0.3 * torch.softmax(q2 @ k2.mT / 8, -1)) @ v


def with_casts(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / 8, -1, dtype=torch.float32).to(q.dtype) @ v


def spellings() -> Iterator[Program]:
    """Every spelling, at lengths that fill their blocks."""
    plain = qkv()
    for function in (
        sdpa, causal, by_matmul, by_einsum, by_bmm, by_hand, with_tril, with_finite_mask,
        windowed, with_prefix, with_soft_cap,
    ):  # fmt: skip
        yield Program(function.__name__, function, plain)
    yield Program("shared_heads", shared_heads, qkv(heads=4, shared=2))
    yield Program("repeated_heads", repeated_heads, qkv(heads=4, shared=2))
    yield Program("with_alibi", with_alibi, (*plain, torch.tensor([0.5, 0.25])))
    yield Program("with_sink", with_sink, (*plain, torch.randn(2)))
    yield Program("differential", differential, (*plain, *qkv()[:2]))
    narrow = qkv(dtype=torch.bfloat16)
    yield Program("causal_bf16", causal, narrow)
    yield Program("with_casts", with_casts, narrow)
    # Kernels do not compute in float16: XLA converts the operands.
    yield Program("causal_f16", causal, qkv(dtype=torch.float16), alone=False)


def masks() -> Iterator[Program]:
    """Masks of every shape that broadcasts to the scores; in some rows nothing is seen."""
    q, k, v = (x.repeat(2, 1, 1, 1) for x in qkv())
    for shape in (
        (LENGTH, LENGTH), (1, 1, LENGTH, LENGTH), (2, 1, 1, LENGTH), (2, 2, LENGTH, LENGTH),
        (1, 2, 1, LENGTH), (2, 1, LENGTH, 1),
    ):  # fmt: skip
        torch.manual_seed(1)
        name = "x".join(map(str, shape))
        yield Program(f"bool {name}", with_mask, (q, k, v, torch.rand(shape) > 0.3))
        yield Program(f"float {name}", with_mask, (q, k, v, torch.randn(shape)))
    hidden = torch.rand(LENGTH, LENGTH) > 0.3
    hidden[:9] = False
    yield Program("hidden rows", with_mask, (q, k, v, hidden))


def sizes() -> Iterator[Program]:
    """Widths from 16 to 256, lengths that fill no block, fewer queries than keys and more."""
    for width in (16, 80, 128, 256):
        length = 2 * width + 32
        yield Program(f"width {width}", causal, qkv(queries=length, keys=length, width=width))
    for length in (127, 1000, 1025):
        tensors = qkv(heads=1, queries=length, keys=length)
        yield Program(f"length {length}", sdpa, tensors)
        yield Program(f"length {length}, causal", causal, tensors)
    for queries, keys in ((130, 300), (300, 130)):
        tensors = qkv(queries=queries, keys=keys)
        yield Program(f"{queries} queries of {keys} keys", causal, tensors)


PROGRAMS = {p.name: p for p in (*spellings(), *masks(), *sizes())}
