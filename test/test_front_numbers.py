"""Arithmetic on numbers taken from tensors, and on those given, raises where Python does."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

Fn = Callable[..., torch.Tensor]

X = torch.arange(4.0)
INTEGERS: dict[str, Fn] = {
    "quotient": lambda a, b: X + a.item() / b.item(),
    "quotient of a number": lambda a, b: X * (5 / b.item()),
    "floor quotient": lambda a, b: X + a.item() // b.item(),
    "floor quotient by a difference": lambda a, b: X + 5 // (b.item() - 0),
    "remainder": lambda a, b: X + a.item() % b.item(),
    "remainder of a size": lambda a, b: X + a.shape[0] % b[0].item(),
    "quotient by the smaller": lambda a, b: X + 5 // min(a.item(), b.item()),
    "quotient as a tensor": lambda a, b: torch.full((3,), a.item() // b.item()),
}
FLOATS: dict[str, Fn] = {
    "quotient": lambda a, b: torch.full((3,), a.item() / b.item()),
    "root": lambda a, b: torch.full((3,), math.sqrt(b.item() + a.item() * 0)),
    "floor": lambda a, b: X + math.floor(b.item()),
    "ceil": lambda a, b: X + math.ceil(a.item() * b.item()),
}


@pytest.fixture(autouse=True)
def _captured_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield


def check(fn: Fn, *calls: tuple[Any, ...], dynamic: bool | None = None) -> None:
    """Every call gives what eager gives, or raises its exception with operator and line."""
    compiled = torch.compile(fn, backend="tpu_tile", fullgraph=True, dynamic=dynamic)
    for args in calls:
        try:
            want = fn(*args)
        except ArithmeticError as error:
            with pytest.raises(type(error), match=f"^{re.escape(str(error))}"):
                compiled(*args)
        except ValueError as error:
            with pytest.raises(ValueError, match=rf"^{error} \(\w+ at .*test_front_numbers"):
                compiled(*args)
        else:
            torch.testing.assert_close(compiled(*args), want, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_divide_as_in_python(name: str, dtype: torch.dtype) -> None:
    pairs = [torch.tensor([[7], [n]], dtype=dtype).unbind() for n in (3, 0, 2)]
    check(INTEGERS[name], *pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_compute_as_in_python(name: str, dtype: torch.dtype) -> None:
    numbers = (2.5, 0.0, -0.0, -1.5, math.inf, math.nan)
    check(FLOATS[name], *(torch.tensor([[7.0], [n]]).to(dtype).unbind() for n in numbers))


@pytest.mark.parametrize("name", ["/", "//", "%"])
def test_given_numbers_and_sizes_divide_as_in_python(name: str) -> None:
    divide = {"/": lambda x, y: x / y, "//": lambda x, y: x // y, "%": lambda x, y: x % y}[name]
    check(lambda n: X + divide(5, n - 6), (4,), (8,), (6,), dynamic=True)
    check(lambda x: x + divide(5, x.shape[0] - 4), *((torch.ones(n),) for n in (3, 6, 4)))


def test_a_check_names_the_operator_and_the_line() -> None:
    compiled = torch.compile(INTEGERS["remainder"], backend="tpu_tile")
    with pytest.raises(ZeroDivisionError, match=r" \(mod at .*test_front_numbers\.py:\d+ "):
        compiled(torch.tensor([3]), torch.tensor([0]))


def test_without_checks_zero_divides_in_silence() -> None:
    options = {"check_indices": False}
    compiled = torch.compile(INTEGERS["quotient"], backend="tpu_tile", options=options)
    got = compiled(torch.tensor([3]), torch.tensor([0]))
    assert torch.equal(got, torch.full((4,), math.inf))
