"""The types in which a kernel's operands and results lie in memory."""

from tpu_inductor.graph.types import DType, TensorType


def stored_dtype(type: TensorType) -> DType:
    """Truth values as bytes, where Pallas would take four; other types as they are.

    A column of them takes four after all: it is small, and bytes come in tiles of 32 rows, which
    would ask for blocks of so many rows of everything else.
    """
    if type.dtype is not DType.BOOL:
        return type.dtype
    return DType.I32 if type.rank == 0 or type.dims[-1] == 1 else DType.I8
