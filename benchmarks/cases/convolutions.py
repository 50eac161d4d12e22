"""Convolutional models at their real widths with random weights; nothing is downloaded."""

import diffusers
import torch
import transformers as tf
from torch import Tensor, nn

from cases.case import Case, Output


def _images(batch: int, size: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(batch, 3, size, size, dtype=dtype)


def _classifier(model: nn.Module, batch: int, size: int, dtype: torch.dtype) -> Case:
    return Case(Output(model.to(dtype), "logits"), (_images(batch, size, dtype),))


def resnet50(batch: int, size: int, dtype: torch.dtype) -> Case:
    return _classifier(tf.ResNetForImageClassification(tf.ResNetConfig()), batch, size, dtype)


def resnet18(batch: int, size: int, dtype: torch.dtype) -> Case:
    config = tf.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return _classifier(tf.ResNetForImageClassification(config), batch, size, dtype)


def convnext(batch: int, size: int, dtype: torch.dtype) -> Case:
    config = tf.ConvNextConfig(image_size=size)
    return _classifier(tf.ConvNextForImageClassification(config), batch, size, dtype)


def unet2d(batch: int, size: int, dtype: torch.dtype) -> Case:
    """The denoiser of 32 x 32 images of "Denoising Diffusion Probabilistic Models"."""
    model = diffusers.UNet2DModel(
        sample_size=size,
        block_out_channels=(128, 256, 256, 256),
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=None,
    ).to(dtype)

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return self.model(x, t, return_dict=False)[0]

    return Case(Step(), (_images(batch, size, dtype), torch.full((batch,), 500)))


class SqueezeExcitation(nn.Module):
    """Scales each channel by what a small network makes of the means of all."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = -(-channels // 4 // 8) * 8
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale(x)


def _conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int, groups: int, activation: type[nn.Module]
) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs, eps=0.001), activation())


class InvertedResidual(nn.Module):
    """Widen by 1 x 1, filter each channel, squeeze and excite, narrow by 1 x 1."""

    def __init__(
        self,
        inputs: int,
        kernel: int,
        wide: int,
        outputs: int,
        excites: bool,
        activation: type[nn.Module],
        stride: int,
    ) -> None:
        super().__init__()
        widen = [_conv_norm(inputs, wide, 1, 1, 1, activation)] if wide != inputs else []
        excite = [SqueezeExcitation(wide)] if excites else []
        self.block = nn.Sequential(
            *widen,
            _conv_norm(wide, wide, kernel, stride, wide, activation),
            *excite,
            _conv_norm(wide, outputs, 1, 1, 1, nn.Identity),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(x) if self.adds else self.block(x)


# Table 1 of "Searching for MobileNetV3": kernel, width inside, channels, excites, stride.
_LARGE = (
    (3, 16, 16, False, nn.ReLU, 1),
    (3, 64, 24, False, nn.ReLU, 2),
    (3, 72, 24, False, nn.ReLU, 1),
    (5, 72, 40, True, nn.ReLU, 2),
    (5, 120, 40, True, nn.ReLU, 1),
    (5, 120, 40, True, nn.ReLU, 1),
    (3, 240, 80, False, nn.Hardswish, 2),
    (3, 200, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 480, 112, True, nn.Hardswish, 1),
    (3, 672, 112, True, nn.Hardswish, 1),
    (5, 672, 160, True, nn.Hardswish, 2),
    (5, 960, 160, True, nn.Hardswish, 1),
    (5, 960, 160, True, nn.Hardswish, 1),
)


def mobilenet_v3(batch: int, size: int, dtype: torch.dtype) -> Case:
    layers: list[nn.Module] = [_conv_norm(3, 16, 3, 2, 1, nn.Hardswish)]
    inputs = 16
    for kernel, wide, outputs, excites, activation, stride in _LARGE:
        layers.append(InvertedResidual(inputs, kernel, wide, outputs, excites, activation, stride))
        inputs = outputs
    layers += [_conv_norm(160, 960, 1, 1, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    layers += [nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return Case(nn.Sequential(*layers).to(dtype), (_images(batch, size, dtype),))
