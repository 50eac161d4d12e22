"""Torch's transformer layers, whose own operators are taken apart, are compiled in inference."""

import pytest
import torch
from torch._dynamo.utils import counters

X = torch.randn(2, 5, 16)


def check(layer, *args, **kwargs):
    """How many operators ran in torch; the results are those of eager torch."""
    torch._dynamo.reset()
    counters.clear()
    layer = layer.eval()
    with torch.no_grad():
        found = torch.compile(layer, backend="tpu_tile")(*args, **kwargs)
        torch.testing.assert_close(found, layer(*args, **kwargs))
    return counters["tpu_tile"]["eager_ops"]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_compiled(norm_first, activation):
    settings = {"batch_first": True, "norm_first": norm_first, "activation": activation}
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, **settings)
    assert check(layer, X) == 0


@pytest.mark.parametrize("weights", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_attention_heads_are_compiled(weights):
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    assert check(layer, X, X, X, **weights) == 0


def test_a_mask_keeps_the_layer_in_torch():
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    assert check(layer, X, torch.ones(5, 5).triu(1).bool()) == 1
