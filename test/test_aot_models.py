"""Kernels of real models at the sizes of real models, compiled for TPUs by libtpu. Nothing runs.

Models are made of fake tensors, so that their weights take no memory. They have one layer, hidden
size 4096, sequence length 2048, vocabulary 32000. By default the row kernels of two models are
compiled; `-m slow` compiles every kernel of four, for two chips.
"""

import re

import jax
import jax.numpy as jnp
import pytest
import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.initialization import no_init_weights

from tpu_inductor.aot.compile import compile_function
from tpu_inductor.front.trace import trace_with
from tpu_inductor.options import Options
from tpu_inductor.pipeline import lower_graph
from tpu_inductor.runtime.load import load_program
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import target

WIDE = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 1}
IDS = {"input_ids": torch.zeros(1, 2048, dtype=torch.long)}


class _LoweredOnly(Exception):
    """Stops a call once its graph is lowered: there is nothing that could run it."""


def _llama():
    config = transformers.LlamaConfig(
        **WIDE, intermediate_size=11008, vocab_size=32000, max_position_embeddings=2048
    )
    config.use_cache = False
    return transformers.LlamaForCausalLM(config), IDS


def _gpt2():
    config = transformers.GPT2Config(
        n_embd=4096, n_layer=1, n_head=32, n_positions=2048, vocab_size=32000, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config), IDS


def _bert():
    config = transformers.BertConfig(
        **WIDE, intermediate_size=16384, max_position_embeddings=2048, vocab_size=32000
    )
    mask = torch.ones(1, 2048, dtype=torch.long)
    return transformers.BertForSequenceClassification(config), IDS | {"attention_mask": mask}


def _vit():
    config = transformers.ViTConfig(**WIDE, intermediate_size=16384, image_size=448, patch_size=14)
    pixels = torch.zeros(2, 3, 448, 448, dtype=torch.bfloat16)
    return transformers.ViTForImageClassification(config), {"pixel_values": pixels}


MODELS = {"llama": _llama, "gpt2": _gpt2, "bert": _bert, "vit": _vit}


def lower(name: str, chip: str):
    """The lowered bfloat16 graph of a model that has no data."""
    found = []

    def keep(gm, args):
        options = Options(target=chip, prefer="pallas")
        found.append(lower_graph(gm, name, {}, options, lambda stage, value: None))
        raise _LoweredOnly

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with (
            FakeTensorMode(allow_non_fake_inputs=True),
            torch.no_grad(),
            no_init_weights(),
        ):
            model, kwargs = MODELS[name]()
            with pytest.raises(Exception, match="_LoweredOnly"):
                torch.compile(model.eval(), backend=trace_with(keep))(**kwargs)
    finally:
        torch.set_default_dtype(default)
    return found[0]


def kernels(lowered) -> dict[str, tuple[TileSchedule, object]]:
    """Each distinct kernel: its schedule and its launching function, by the function's name."""
    (program,) = lowered.plan.steps
    module = load_program(program.name, program.source).__globals__
    found = {}
    calls = re.findall(r"^    \S.* = (\w+)\(.*interpret=interpret\)", program.source, re.MULTILINE)
    for function, schedule in zip(calls, lowered.scheduled.schedules.values(), strict=True):
        found[function] = (schedule, module[function])
    return found


def compile_kernels(name: str, chip: str, wanted) -> int:
    """Compiles the kernels that `wanted` picks by schedule; fails on the first error."""
    compiled = 0
    for function, (schedule, launch) in kernels(lower(name, chip)).items():
        if not wanted(schedule):
            continue
        args = [
            jax.ShapeDtypeStruct(o.var.type.dims, jnp.dtype(o.var.type.dtype.value.rstrip("_")))
            for o in schedule.inputs
        ]
        result = compile_function(launch, args, target(chip), function)
        assert result.ok, f"{name} {chip} {function}: {result.error}"
        compiled += 1
    return compiled


@pytest.mark.aot
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_row_kernels_of_a_large_model_compile(name):
    assert compile_kernels(name, "v5e", lambda s: s.template == "rows") >= 3


@pytest.mark.aot
@pytest.mark.slow
@pytest.mark.parametrize("chip", ["v5e", "v6e"])
@pytest.mark.parametrize("name", list(MODELS))
def test_every_kernel_of_a_large_model_compiles(name, chip):
    assert compile_kernels(name, chip, lambda s: True) >= 6
