"""Graphs that run in torch as a whole are right, and say so once."""

import logging

import torch
from torch.utils.checkpoint import checkpoint


def test_jagged_tensors_run_in_torch_with_one_warning(caplog):
    compiled = torch.compile(lambda x: (x * 2).sin() + x, backend="tpu_tile", dynamic=True)
    with caplog.at_level(logging.WARNING, logger="tpu_inductor"):
        for lengths in ((2, 3), (2, 5), (4, 4)):
            parts = [torch.randn(n, 4) for n in lengths]
            nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
            want = torch.cat([(p * 2).sin() + p for p in parts])
            torch.testing.assert_close(compiled(nested).values(), want)
    (message,) = [r.getMessage() for r in caplog.records if "as a whole" in r.getMessage()]
    assert "nested tensor" in message


def test_a_checkpointed_dropout_draws_the_same_numbers_again():
    def block(x, w):
        return torch.nn.functional.dropout(torch.relu(x @ w), 0.5)

    def loss(x, w):
        return checkpoint(block, x, w, use_reentrant=False).sum()

    results = []
    for fn in (loss, torch.compile(loss, backend="tpu_tile")):
        torch.manual_seed(3)
        x, w = torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
        value = fn(x, w)
        value.backward()
        results.append((value.detach(), x.grad, w.grad))
    torch.testing.assert_close(results[1], results[0])
