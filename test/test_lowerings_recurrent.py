"""The LSTM layer, in both directions, and what stays eager."""

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_lstm_equals_eager_without_eager_calls(bidirectional, layers):
    torch.manual_seed(0)
    model = nn.LSTM(5, 7, layers, batch_first=True, bidirectional=bidirectional).eval()
    x = torch.randn(3, 9, 5)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        want, got = model(x), torch.compile(model, backend="tpu_tile")(x)
    torch.testing.assert_close(got, want)
    assert torch._dynamo.utils.counters["tpu_tile"]["eager_ops"] == 0


def test_a_long_sequence_runs_eagerly_and_right():
    model = nn.LSTM(4, 4).eval()
    x = torch.randn(70, 2, 4)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        want, got = model(x), torch.compile(model, backend="tpu_tile")(x)
    torch.testing.assert_close(got, want)
    assert torch._dynamo.utils.counters["tpu_tile"]["eager_ops"] == 1
