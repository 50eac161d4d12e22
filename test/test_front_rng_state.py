"""Checkpointed parts draw the forward's numbers again, and are compiled around what draws."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint


def dropped(x, w):
    return F.dropout(torch.relu(x @ w), 0.5) @ w


def dropped_twice(x, w):
    return F.dropout(F.dropout(x, 0.2) @ w, 0.3)


def noisy(x, w):
    return torch.relu(x + torch.rand_like(x)) * torch.randn(8) @ w


def attended(x, w, **options):
    return F.scaled_dot_product_attention(x[None, None], *[w[None, None]] * 2, **options).sin()


def attended_in_part(x, w):
    return attended(x, w, dropout_p=0.3)


def train(body, compile_):
    """The loss, the gradients and the generator's state, of one step."""

    def lose(x, w):
        return checkpoint(body, x, w, use_reentrant=False).sum() + F.dropout(x, 0.5).sum()

    torch._dynamo.reset()
    torch.manual_seed(0)
    x, w = (torch.randn(n, 8, requires_grad=True) for n in (4, 8))
    loss = compile_(lose)(x, w)
    loss.backward()
    return loss, x.grad, w.grad, torch.get_rng_state()


@pytest.mark.parametrize(
    ("body", "calls"),
    [(dropped, 3), (dropped_twice, 5), (noisy, 5), (attended, 1), (attended_in_part, 3)],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_only_what_draws_numbers_runs_in_torch(body, calls, dynamic):
    wanted = train(body, lambda lose: lose)
    counters.clear()
    found = train(body, functools.partial(torch.compile, backend="tpu_tile", dynamic=dynamic))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)
    assert counters["tpu_tile"]["eager_ops"] == calls
