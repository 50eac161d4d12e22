"""The programs whose times others measured, as their library has them. Compile workers import this.

All but the shapes of their arrays is in the problem and the configuration that were recorded. The
library is an optional dependency: pip install -e ".[hardware]".
"""

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from tokamax._src.ops.attention.base import Mask
from tokamax._src.ops.attention.pallas_mosaic_tpu import PallasMosaicTpuFlashAttention
from tokamax._src.ops.attention.xla_chunked import XlaChunkedDotProductAttention
from tokamax._src.ops.gated_linear_unit.base import GatedLinearUnit
from tokamax._src.ops.ragged_dot.pallas_mosaic_tpu import PallasMosaicTpuRaggedDot

CHUNKS = (512, 1024)
"""Queries and keys of a chunk, as the library's own entry for XLA has them."""

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "silu": jax.nn.silu,
    "sigmoid": jax.nn.sigmoid,
}


class _Splash(PallasMosaicTpuFlashAttention):
    def supported_on(self, device: Any) -> bool:
        """Nothing runs: the device that is here is not the one that is compiled for."""
        return True


class _Grouped(PallasMosaicTpuRaggedDot):
    def supported_on(self, device: Any) -> bool:
        """As above."""
        return True


def make_program(kind: str, problem: str, config: str) -> Callable[..., Any]:
    """The function of the arrays of a problem, in the order of `measured.OPERANDS`."""
    return _MAKERS[kind](json.loads(problem), json.loads(config or "null"))


def _attention(operator: Any, problem: Any) -> Callable[..., Any]:
    mask = problem["mask"]
    settings = {"logits_dtype": jnp.dtype(problem["logits_dtype"])}
    settings["logits_scale"] = problem["logits_scale"]

    def attention(q: jax.Array, k: jax.Array, v: jax.Array, *rest: jax.Array) -> jax.Array:
        bias = rest[0] if "bias" in problem else None
        chosen = Mask(rest[-1]) if "bool_mask" in mask else Mask(is_causal="is_causal" in mask)
        return operator(q, k, v, bias=bias, mask=chosen, **settings)

    return attention


def _splash(problem: Any, config: Any) -> Callable[..., Any]:
    operator = _Splash()
    return _attention(operator.replace(config=operator.config_cls(**config)), problem)


def _chunked(problem: Any, _config: Any) -> Callable[..., Any]:
    return _attention(XlaChunkedDotProductAttention(chunk_size=CHUNKS), problem)


def _gated(problem: Any, _config: Any) -> Callable[..., Any]:
    activation = ACTIVATIONS[problem["activation"].rpartition(".")[2]]
    operator = GatedLinearUnit()
    return lambda x, weights: operator(x, weights, activation=activation)


def _grouped(problem: Any, config: Any) -> Callable[..., Any]:
    operator = _Grouped()
    operator = operator.replace(config=operator.config_cls(**config))
    sizes = problem["group_sizes"]
    numbers = problem["ragged_dot_dimension_numbers"]
    dimensions = jax.lax.RaggedDotDimensionNumbers(
        numbers["dot_dimension_numbers"],
        numbers["lhs_ragged_dimensions"],
        numbers["rhs_group_dimensions"],
    )

    def grouped(lhs: jax.Array, rhs: jax.Array) -> jax.Array:
        return operator(
            lhs,
            rhs,
            group_sizes=jnp.array(sizes, jnp.int32),
            ragged_dot_dimension_numbers=dimensions,
        )

    return grouped


_MAKERS: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "splash attention": _splash,
    "XLA chunked attention": _chunked,
    "XLA gated linear unit": _gated,
    "grouped matmul": _grouped,
}
