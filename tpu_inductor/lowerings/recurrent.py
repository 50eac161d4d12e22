"""Recurrent layers: the LSTM layer that torch runs through oneDNN, unrolled over its steps.

The input's part of all gates is one product for all steps; each step adds the hidden state's.
"""

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.lowerings.matmul import contract
from tpu_inductor.lowerings.registry import lowering

LSTM = 2
MAX_STEPS = 64
"""Beyond this an unrolled layer costs more to compile than it saves."""


@lowering(torch.ops.aten.mkldnn_rnn_layer.default)
def mkldnn_rnn_layer(
    b: Builder,
    input: Var,
    weight0: Var,
    weight1: Var,
    weight2: Var,
    weight3: Var,
    hx_: Var,
    cx_: Var,
    reverse: bool,
    batch_sizes: list[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Value, ...] | Reject:
    """One direction of an LSTM layer over (steps, batch, features).

    Gates and cell state are float32, the hidden state has the input's type. Results: the hidden
    state of every step, the last hidden and cell state, an empty workspace.
    """
    steps = input.type.dims[0]
    if mode != LSTM or train or batch_sizes or batch_first or not 0 < steps <= MAX_STEPS:
        return Reject(f"a recurrent layer other than an LSTM of at most {MAX_STEPS} steps")
    gates: Value = contract(b, input, weight0, ((2,), (1,)))
    wide, narrow = gates.type.dtype, input.type.dtype
    for bias in (weight2, weight3) if has_biases else ():
        gates = b.op("add", gates, b.convert(bias, wide))
    state = hx_.type.shape[-2:]
    h, c = b.reshape(hx_, state), b.convert(b.reshape(cx_, state), wide)
    outputs: list[Var | None] = [None] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        now = b.reshape(b.slice(gates, 0, t, t + 1), gates.type.dims[1:])
        recurrent = contract(b, h, weight1, ((1,), (1,)))
        h, c = _step(b, b.op("add", now, recurrent), c, hidden_size)
        h = b.tensor(b.convert(h, narrow))
        outputs[t] = b.expand_dims(h, (0,))
    return (
        b.concat([o for o in outputs if o is not None], 0),
        b.reshape(h, hx_.type.shape),
        b.convert(b.reshape(c, cx_.type.shape), narrow),
        b.full(b.out[3].shape, b.out[3].dtype, 0),
    )


def _step(b: Builder, gates: Var, c: Value, size: int) -> tuple[Var, Var]:
    """The next hidden and cell state; gates (batch, 4 * size): input, forget, cell, output."""
    i, f, g, o = (b.slice(gates, 1, n * size, (n + 1) * size) for n in range(4))
    kept = b.op("mul", b.op("logistic", f), c)
    c = b.op("add", kept, b.op("mul", b.op("logistic", i), b.op("tanh", g)))
    return b.op("mul", b.op("logistic", o), b.op("tanh", c)), c
