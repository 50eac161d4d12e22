"""One layer of each of several real models, at its real width, compiled for TPUs. Nothing runs.

Layers are in bfloat16 on the meta device, so that their weights take no memory. `aot_compile` gives
libtpu the whole program and each kernel alone, without prices. By default one layer is compiled for
one chip; `-m slow` is the rest for three, `-k llama` one model, `-k v6e` one chip.
"""

from dataclasses import replace

import pytest
import torch
from diffusers import Transformer2DModel
from transformers import BertConfig, GPT2Config, LlamaConfig, ViTConfig, WhisperConfig
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.vit.modeling_vit import ViTLayer
from transformers.models.whisper.modeling_whisper import WhisperEncoderLayer

from tpu_inductor.aot import CompilerPool, aot_compile

pytestmark = pytest.mark.aot

CHIPS = ("v5e", "v5p", "v6e")

LAYER_S = 1800.0
"""What one program may take on a slow machine, where several compilations share a core."""

SDPA = {"attn_implementation": "sdpa"}


def _llama(intermediate: int, kv_heads: int):
    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=intermediate,
        num_attention_heads=32,
        num_key_value_heads=kv_heads,
        **SDPA,
    )
    angles = torch.empty(1, 2048, 128)
    inputs = {"position_embeddings": (angles, angles), "use_cache": False}
    return LlamaDecoderLayer(config, 0), (torch.empty(1, 2048, 4096),), inputs


def _bert_large():
    config = BertConfig(hidden_size=1024, intermediate_size=4096, num_attention_heads=16, **SDPA)
    return BertLayer(config), (torch.empty(4, 512, 1024),), {}


def _gpt2_xl():
    config = GPT2Config(n_embd=1600, n_head=25, **SDPA)
    return GPT2Block(config), (torch.empty(1, 1024, 1600),), {}


def _vit_large():
    config = ViTConfig(hidden_size=1024, intermediate_size=4096, num_attention_heads=16, **SDPA)
    return ViTLayer(config), (torch.empty(8, 197, 1024),), {}


def _whisper_large():
    config = WhisperConfig(d_model=1280, encoder_ffn_dim=5120, encoder_attention_heads=20, **SDPA)
    return WhisperEncoderLayer(config), (torch.empty(1, 1500, 1280), None), {}


def _unet(width: int, edge: int):
    layer = Transformer2DModel(
        num_attention_heads=8,
        attention_head_dim=width // 8,
        in_channels=width,
        cross_attention_dim=768,
    )
    text = torch.empty(2, 77, 768)
    return layer, (torch.empty(2, width, edge, edge), text), {"return_dict": False}


LAYERS = {
    "llama_7b": lambda: _llama(11008, 32),
    "llama_8b": lambda: _llama(14336, 8),
    "bert_large": _bert_large,
    "gpt2_xl": _gpt2_xl,
    "vit_large": _vit_large,
    "whisper_large": _whisper_large,
    "unet_320": lambda: _unet(320, 64),
    "unet_640": lambda: _unet(640, 32),
    "unet_1280": lambda: _unet(1280, 16),
}

SAMPLE = ("whisper_large", "v6e")


def cases():
    for name in LAYERS:
        for chip in CHIPS:
            marks = () if (name, chip) == SAMPLE else pytest.mark.slow
            yield pytest.param(name, chip, id=f"{name}-{chip}", marks=marks)


def make_layer(name: str):
    """A layer in bfloat16 that has no data, and its arguments."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            layer, args, kwargs = LAYERS[name]()
    finally:
        torch.set_default_dtype(default)
    return layer.eval(), args, kwargs


class UnpricedPool(CompilerPool):
    """Whether it compiles is asked here, not what it costs."""

    def run(self, requests, progress=lambda done, total: None):
        return super().run([replace(r, is_priced=False) for r in requests], progress)


@pytest.fixture(scope="module")
def pool():
    with UnpricedPool(1, LAYER_S) as pool:
        yield pool


@pytest.mark.parametrize(("name", "chip"), cases())
def test_a_layer_of_a_real_model_compiles(name, chip, pool):
    layer, args, kwargs = make_layer(name)
    with torch.no_grad():
        report = aot_compile(layer, *args, kwargs=kwargs, target=chip, pool=pool)
    assert report.programs
    assert not report.eager
    assert report.ok, str(report)
