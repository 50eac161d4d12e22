"""Small models of transformers, and what surrounds a forward pass, against eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers as tf
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

WORDS, LENGTH = 128, 12
TINY = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}

Model = tuple[nn.Module, dict[str, Any]]


def tokens(length: int = LENGTH) -> Tensor:
    return torch.randint(0, WORDS, (2, length))


def llama() -> Model:
    config = tf.LlamaConfig(**TINY, num_key_value_heads=2, use_cache=False)
    return tf.LlamaForCausalLM(config), {"input_ids": tokens()}


def gpt2() -> Model:
    config = tf.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=WORDS, use_cache=False)
    return tf.GPT2LMHeadModel(config), {"input_ids": tokens()}


def bert() -> Model:
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[1, 7:] = 0
    model = tf.BertForSequenceClassification(tf.BertConfig(**TINY))
    return model, {"input_ids": tokens(), "attention_mask": mask}


def vit() -> Model:
    config = tf.ViTConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        image_size=32, patch_size=8,
    )  # fmt: skip
    return tf.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


MODELS = [llama, gpt2, bert, vit]


@pytest.mark.parametrize("make", MODELS)
def test_a_model_is_one_program_and_gives_eager_logits(make):
    model, kwargs = make()
    model.eval()
    counters.clear()
    with torch.no_grad():
        want = model(**kwargs).logits
        got = torch.compile(model, backend="tpu_tile", fullgraph=True)(**kwargs).logits
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    work = counters["tpu_tile"]
    assert (work["programs"], work["eager_ops"]) == (1, 0)
    assert work["kernels"] > 5


def test_the_tiles_of_a_tpu_give_eager_logits():
    model, kwargs = llama()
    options = {"target": "v5e", "interpret": True}
    with torch.no_grad():
        want = model.eval()(**kwargs).logits
        got = torch.compile(model, backend="tpu_tile", options=options)(**kwargs).logits
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_as_near_to_float64_as_eager():
    model, kwargs = llama()
    model.eval()
    with torch.no_grad():
        exact = model.double()(**kwargs).logits
        model.bfloat16()
        eager = (model(**kwargs).logits.double() - exact).abs().max()
        got = torch.compile(model, backend="tpu_tile")(**kwargs).logits
    assert got.dtype is torch.bfloat16
    assert (got.double() - exact).abs().max() <= 2 * eager


def test_generation_gives_the_same_tokens():
    model, _ = llama()
    model.eval()
    prompt = tokens(5)
    want = model.generate(prompt, max_new_tokens=3, do_sample=False, use_cache=False)
    model.forward = torch.compile(model.forward, backend="tpu_tile")
    got = model.generate(prompt, max_new_tokens=3, do_sample=False, use_cache=False)
    assert torch.equal(got, want)


# -- training -------------------------------------------------------------------------------
def test_gradients_are_those_of_eager():
    model, kwargs = llama()
    kwargs["labels"] = kwargs["input_ids"]
    grads = []
    for fn in (model, torch.compile(model, backend="tpu_tile")):
        model.zero_grad()
        fn(**kwargs).loss.backward()
        grads.append({n: p.grad.clone() for n, p in model.named_parameters()})
    for name, want in grads[0].items():
        torch.testing.assert_close(grads[1][name], want, rtol=1e-3, atol=1e-5, msg=name)


def test_training_goes_as_in_eager():
    def train(wrap: Callable[[nn.Module], Any]) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(9, 33), nn.LayerNorm(33), nn.GELU(), nn.Linear(33, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        fn, x = wrap(model), torch.randn(17, 9)
        losses = []
        for _ in range(5):
            loss = F.mse_loss(fn(x), x.sum(-1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    want = train(lambda model: model)
    assert train(lambda m: torch.compile(m, backend="tpu_tile")) == pytest.approx(want, rel=1e-4)
    assert want[-1] < want[0]


def test_batch_statistics_are_updated_in_training():
    norm = nn.BatchNorm1d(7)
    other = nn.BatchNorm1d(7)
    x = torch.randn(33, 7)
    torch.testing.assert_close(torch.compile(norm, backend="tpu_tile")(x), other(x))
    torch.testing.assert_close(norm.running_var, other.running_var)
    assert norm.num_batches_tracked == 1


# -- mutation, aliases and strides ------------------------------------------------------------
def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="tpu_tile", fullgraph=True, **options)


def test_arguments_are_mutated():
    def mutate(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        x[0].mul_(2)
        y[:, 1:].copy_(x[:, :-1])
        return x * 2

    x, y = torch.randn(7, 9), torch.randn(7, 9)
    a, b = x.clone(), y.clone()
    torch.testing.assert_close(compiled(mutate)(x, y), mutate(a, b))
    torch.testing.assert_close(x, a)
    torch.testing.assert_close(y, b)


def test_arguments_that_are_read_survive():
    x = torch.randn(7, 9)
    kept = x.clone()
    compiled(lambda x: (x + 1) * x)(x)
    assert torch.equal(x, kept)


def test_overlapping_arguments_are_mutated_once():
    def shift(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    base, other = torch.arange(10.0), torch.arange(10.0)
    got = compiled(shift)(base[:6], base[3:])
    assert torch.equal(got, shift(other[:6], other[3:]))
    assert torch.equal(base, other)


def test_a_view_of_an_argument_aliases_it():
    x = torch.randn(7, 9)
    view, product = compiled(lambda x: (x.t(), x * 2))(x)
    assert view.data_ptr() == x.data_ptr()
    product.zero_()
    assert x.any()


def test_out_arguments_are_written():
    x, out = torch.randn(7, 9), torch.empty(7, 9)
    result = compiled(lambda x, out: torch.add(x, 1, out=out))(x, out)
    assert result is out
    assert torch.equal(out, x + 1)


def test_memory_formats_are_kept():
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
    got, want = compiled(lambda x: conv(x).relu() + 1)(x), conv(x).relu() + 1
    assert got.stride() == want.stride()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


# -- sizes and numbers that change --------------------------------------------------------------
def test_dynamic_sizes_trace_once():
    counter = CompileCounterWithBackend("tpu_tile")
    fn = torch.compile(lambda x: F.softmax(x * x.shape[0], -1), backend=counter, dynamic=True)
    for rows in (3, 7, 129, 64):
        x = torch.randn(rows, rows + 2)
        torch.testing.assert_close(fn(x), F.softmax(x * rows, -1))
    assert counter.frame_count == 1


def test_sizes_become_dynamic_on_their_own():
    model, _ = llama()
    fn = torch.compile(model.eval(), backend="tpu_tile")
    with torch.no_grad():
        for length in (5, 9):
            ids = tokens(length)
            torch.testing.assert_close(fn(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)


def test_numbers_change_without_a_new_program():
    counter = CompileCounterWithBackend("tpu_tile")
    fn = torch.compile(lambda x, s, b: x * s + b, backend=counter)
    x = torch.randn(7, 9)
    for s, b in ((3, 1.25), (5, 2.5), (7, 3.5), (9, -0.5)):
        torch.testing.assert_close(fn(x, s, b), x * s + b)
    assert counter.frame_count <= 2


def test_a_graph_break_leaves_two_right_graphs():
    def broken(x: Tensor) -> Tensor:
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y.sum(-1)

    x = torch.randn(7, 9)
    torch.testing.assert_close(torch.compile(broken, backend="tpu_tile")(x), broken(x))


def test_random_numbers_are_torchs_own():
    def noisy(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand_like(x)

    x = torch.randn(64, 64)
    torch.manual_seed(3)
    want = noisy(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(noisy)(x), want)
