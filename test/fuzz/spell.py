"""A program as Python text that needs torch alone, and that is what is judged."""

import inspect
from collections.abc import Mapping

from test.fuzz.data import tensor
from test.fuzz.program import Extent, Input, Program

DYNAMIC = {"default": None, "always": True, "never": False, "marked": None}


def spell_definitions(program: Program) -> str:
    """The functions `inputs(sizes...)`, which makes the arguments, and `f`, which takes them."""
    names = ", ".join(i.name for i in program.inputs)
    made = [_spell_input(i, program.training) for i in program.inputs]
    body = [str(s) for s in program.statements]
    return "\n\n\n".join(
        [
            "import math\n\nimport torch\nimport torch.nn.functional as F",
            inspect.getsource(tensor).rstrip(),
            _function("inputs", ", ".join(program.sizes), [*made, _return(names)]),
            _function("f", names, [*body, _return(", ".join(program.results))]),
        ]
    )


def spell(program: Program, backend: str, options: Mapping[str, object], header: str) -> str:
    """The whole of it: `header` as a comment, the definitions, and calls that show both sides."""
    comment = "\n".join(f"# {line}".rstrip() for line in header.splitlines())
    return f"{comment}\n{spell_definitions(program)}\n\n\n{_calls(program, backend, options)}\n"


def spell_compile(program: Program, backend: str, options: Mapping[str, object]) -> str:
    given = f", options={dict(options)!r}" if options else ""
    return f"torch.compile(f, backend={backend!r}, dynamic={DYNAMIC[program.dynamic]}{given})"


def _function(name: str, parameters: str, lines: list[str]) -> str:
    return f"def {name}({parameters}):\n" + "\n".join(f"    {line}" for line in lines)


def _return(names: str) -> str:
    return f"return ({names},)" if names else "return ()"


def _spell_input(given: Input, training: bool) -> str:
    made = given.base or (
        f"tensor({given.seed}, {_tuple(given.shape)}, torch.{given.dtype}, {given.data!r})"
    )
    viewed = given.view.format(made)
    learns = training and given.base is None and "float" in given.dtype
    return f"{given.name} = {viewed}" + (".detach().requires_grad_()" if learns else "")


def _tuple(items: tuple[Extent, ...]) -> str:
    return f"({', '.join(map(str, items))}{',' * (len(items) == 1)})"


def _calls(program: Program, backend: str, options: Mapping[str, object]) -> str:
    sizes = f"[{', '.join(_tuple(call) for call in program.calls)}]"
    lines = [
        f"compiled = {spell_compile(program, backend, options)}",
        f"for sizes in {sizes}:",
        "    for run in (f, compiled):",
        "        args = inputs(*sizes)",
    ]
    if program.dynamic == "marked":
        lines += [
            "        for arg in args:",
            "            torch._dynamo.maybe_mark_dynamic(arg, list(range(arg.dim())))",
        ]
    lines += [
        "        torch.manual_seed(0)",
        "        results = run(*args)",
        "        print('eager' if run is f else 'compiled', results, args)",
    ]
    lines += [
        "        print([(r.dtype, r.stride(), r.storage_offset(), r.data_ptr()) for r in results])"
    ]
    if program.training:
        lines += [
            "        wrt = [a for a in args if a.requires_grad]",
            "        outs = [r for r in results if r.requires_grad]",
            "        weights = [torch.ones_like(r) for r in outs]",
            "        print(torch.autograd.grad(outs, wrt, weights, allow_unused=True))",
        ]
    return "\n".join(lines)
