"""Small models of transformers and diffusers with random weights; nothing is downloaded."""

import functools

import diffusers
import torch
import transformers as tf

from cases.case import Case, Make, Output

VOCAB, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 1024, 128, 4, 2, 64, 2


def _tokens() -> torch.Tensor:
    return torch.randint(3, VOCAB, (BATCH, LENGTH))


def _image(size: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(BATCH, channels, size, size)


def llama(layers: int) -> Case:
    config = tf.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=LENGTH,
        use_cache=False,
    )
    return Case(Output(tf.LlamaForCausalLM(config), "logits"), (_tokens(),))


def gpt2() -> Case:
    config = tf.GPT2Config(
        vocab_size=VOCAB,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=LENGTH,
        use_cache=False,
    )
    return Case(Output(tf.GPT2LMHeadModel(config), "logits"), (_tokens(),))


def bert() -> Case:
    config = tf.BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
    )
    return Case(Output(tf.BertModel(config), "last_hidden_state"), (_tokens(),))


def vit() -> Case:
    config = tf.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        image_size=64,
        patch_size=8,
    )
    return Case(Output(tf.ViTForImageClassification(config), "logits"), (_image(64),))


def resnet() -> Case:
    config = tf.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic"
    )
    return Case(Output(tf.ResNetForImageClassification(config), "logits"), (_image(64),))


def convnext() -> Case:
    config = tf.ConvNextConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], image_size=64)
    return Case(Output(tf.ConvNextForImageClassification(config), "logits"), (_image(64),))


def dit() -> Case:
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=HEADS,
        attention_head_dim=WIDTH // HEADS,
        in_channels=4,
        out_channels=4,
        num_layers=LAYERS,
        sample_size=16,
        patch_size=2,
        num_embeds_ada_norm=10,
        norm_num_groups=8,
    )

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor, t: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return self.model(x, t, class_labels=label, return_dict=False)[0]

    return Case(Step(), (_image(16, channels=4), torch.tensor([10, 500]), torch.tensor([1, 2])))


CASES: dict[str, Make] = {f"llama_{n}": functools.partial(llama, n) for n in (2, 4, 8)} | {
    f.__name__: f for f in (gpt2, bert, vit, resnet, convnext, dit)
}
