"""What a compiled function returns can be resized, emptied and written to as in eager."""

import pytest
import torch


def two_views(x):
    y = x + 1
    return y, y.t()


def strided(x):
    return (x + 1)[:, ::2], x.sum(), x.relu().to(torch.bfloat16)


def through_torch(x):
    """A cumulative product of complex numbers is torch's, between two programs."""
    y = x * 2
    return y, torch.view_as_complex(y.reshape(-1, 2)).abs() + 1


def untouched(x):
    return x.view(-1), torch.ones(3), x + 0


FUNCTIONS = [two_views, strided, through_torch, untouched]


def resized(results):
    """The storages after a growth, and the tensors, which keep what they had."""
    for tensor in results:
        before, memory = tensor.clone(), tensor.untyped_storage()
        memory.resize_(memory.nbytes() + 4096)
        assert tensor.equal(before)
        tensor.resize_(tensor.numel() + 100)
        assert tensor.flatten()[: before.numel()].numel() == before.numel()
    return [t.untyped_storage().nbytes() for t in results]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_can_be_resized(function, training):
    compiled = torch.compile(function, backend="tpu_tile")
    for _ in range(2):
        results, wanted = (
            [
                r.detach() if training else r
                for r in f(torch.arange(24.0).view(4, 6).requires_grad_(training))
            ]
            for f in (compiled, function)
        )
        assert resized(results) == resized(wanted)


def test_a_result_takes_another_operators_output():
    y = torch.compile(lambda x: x * 2, backend="tpu_tile")(torch.ones(4))
    torch.cat([torch.ones(5), torch.zeros(5)], out=y.resize_(0))
    assert y.shape == (10,)


def test_what_a_forward_saves_is_not_copied():
    """The gradient comes from results that the caller never sees."""
    x = torch.randn(64, 64, requires_grad=True)
    y = torch.compile(lambda x: x.sin().exp(), backend="tpu_tile")(x)
    y.untyped_storage().resize_(0)
    y.untyped_storage().resize_(64 * 64 * 4)
    z = torch.compile(lambda x: x.sin().cos(), backend="tpu_tile")(x)
    z.sum().backward()
    assert x.grad.allclose(-x.sin().sin() * x.cos(), atol=1e-6)


def test_an_empty_result_can_be_resized():
    y = torch.compile(lambda x: x + 1, backend="tpu_tile")(torch.empty(0, 3))
    assert y.resize_(2, 3).shape == (2, 3)
