"""What input tensors hold. `tensor` is printed with every program, so it stands alone."""

import math

import torch

DATA = ("count", "normal", "special", "tiny")
"""From the plainest to the worst."""


def tensor(seed, shape, dtype, data):
    """Data of four kinds: counted up, normal, with special values among it, or denormal."""
    rng = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    if data == "count":
        return torch.arange(size).reshape(shape).to(dtype)
    if not dtype.is_floating_point:
        low, high = (0, 2) if dtype is torch.bool else (0 if dtype is torch.uint8 else -9, 10)
        out = torch.randint(low, high, shape, generator=rng).to(dtype)
        bounds = None if dtype is torch.bool else torch.iinfo(dtype)
        edges = [0, 1] if bounds is None else [bounds.min, bounds.max, 0, 1]
    else:
        out = torch.randn(shape, generator=rng, dtype=torch.float64).to(dtype)
        edges = [math.nan, math.inf, -math.inf, -0.0, 0.0, torch.finfo(dtype).max, 1.0]
        if data == "tiny":
            edges = [-0.0, 0.0, torch.finfo(dtype).tiny / 4, -torch.finfo(dtype).tiny / 8]
    if data != "normal" and size:
        places = torch.randint(0, size, (min(size, len(edges)),), generator=rng)
        out.view(-1)[places] = torch.tensor(edges, dtype=dtype)[: len(places)]
    return out
