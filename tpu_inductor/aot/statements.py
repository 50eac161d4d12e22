"""Prints one scalar instruction as Python: an effect on the machine, or the value of a register.

    %s3 = smax.s32 %s1, 7       -->  select(r[1]>7,r[1],7)
    %9 = dma.done.wait %s4, 16  -->  m.wait(r[2],16)

where `r` are the registers and `m` is the `machine.Machine`. What has no expression is UNKNOWN.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tpu_inductor.aot.bundles import Instruction
from tpu_inductor.aot.scalar import wrap

EFFECTS = ("sst", "sbr", "vsync", "vwait", "dma", "inlined_call")
"""Prefixes of the operations whose operands matter to the clock."""

_EXPRESSIONS = {
    "sadd.s32": "wrap({0}+{1})",
    "ssub.s32": "wrap({0}-{1})",
    "smul.u32": "wrap({0}*{1})",
    "smul.s32": "wrap({0}*{1})",
    "sand.u32": "{0}&{1}",
    "sor.u32": "{0}|{1}",
    "sxor.u32": "wrap({0}^{1})",
    "sshll.u32": "{0}<<{1}",
    "sshrl.u32": "unsigned({0})>>{1}",
    "sshra.s32": "{0}>>{1}",
    "por": "either({0},{1})",
    "pand": "negate(either(negate({0}),negate({1})))",
    "pnand": "either(negate({0}),negate({1}))",
    "pnor": "negate(either({0},{1}))",
    "pxor": "{0}^{1}",
    "pneg": "negate({0})",
    "smov": "{0}",
    "pmov": "{0}",
    "smax.s32": "select({0}>{1},{0},{1})",
    "smin.s32": "select({0}<{1},{0},{1})",
    "smax.u32": "select(unsigned({0})>unsigned({1}),{0},{1})",
    "smin.u32": "select(unsigned({0})<unsigned({1}),{0},{1})",
    "scalar_select": "m.select({0},{1},{2})",
    "sdivrem.u32": "({0},{1})",
    "reloc": "0",
}
_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

_STORE = re.compile(r"(\[smem:.*\])\s*,?\s*(\S+)$")
_ATTRIBUTE = re.compile(r"@(\w+)=(.*)")
_ATTRIBUTE_NAME = re.compile(r"^@\w+=")
_ADDRESS_SYNTAX = re.compile(r"[\[\]$]|\b[a-z]+:")
_ALLOCATION = re.compile(r"#allocation(\d+)")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
_ARGUMENT_INDEX = re.compile(r"index: (\d+)")
_PREDICATED_MOVE = re.compile(r"\((!?%p\w+), (\S+)\), (.*)")
_COMPARISON = re.compile(r"scmp\.(\w\w)\.([su])32")


@dataclass(frozen=True, slots=True)
class Statements:
    """Prints the instructions of one program. `register` gives the place of a value, "r[3]".

    `program` numbers the program: its allocations lie apart from those of all others.
    """

    program: int
    register: Callable[[str], str]

    def operand(self, text: str) -> str:
        """A value, number, address or sum of these."""
        text = _ATTRIBUTE_NAME.sub("", text.strip())
        if text.startswith("!"):
            return f"negate({self.operand(text[1:])})"
        if text.startswith("%"):
            return self.register(text[1:])
        if text.startswith("["):
            return f"({'+'.join(map(self.operand, _ADDRESS_SYNTAX.sub(' ', text).split('+')))})"
        if allocation := _ALLOCATION.match(text):
            return str(((self.program << 16) + int(allocation[1]) + 1) << 44)
        return str(wrap(int(text, 0))) if _NUMBER.fullmatch(text) else "UNKNOWN"

    def effect(self, instruction: Instruction, branch: str) -> str:
        """What `instruction` does beside giving a value, "" if nothing. `branch` holds a branch."""
        op, guard = instruction.op, instruction.guard
        if op.startswith("sbr"):
            return f"{branch}={self.operand(guard) if guard else True}"
        call = self._call(instruction)
        if not call or not guard:
            return call
        is_timed = op.startswith(("dma", "vwait"))
        return f"if m.holds({self.operand(guard)},{is_timed}): {call}"

    def _call(self, instruction: Instruction) -> str:
        op, args = instruction.op, instruction.arguments
        if op == "sst" and (store := _STORE.match(instruction.operands)):
            return f"m.store({self.operand(store[1])},{self.operand(store[2])})"
        if op == "inlined_call":
            return f"m.call({instruction.note!r},[{','.join(map(self.operand, args))}])"
        if op.startswith(("dma.done.wait", "vwait.ge")):
            return f"m.wait({self.operand(args[0])},{self.operand(args[1])})"
        if op.startswith("dma."):
            return self._dma(op.removeprefix("dma."), args)
        if op == "vsyncpa" or op.startswith("vsyncadd"):
            signal = "set_flag" if op == "vsyncpa" else "add_flag"
            return f"m.{signal}({self.operand(args[0])},{self.operand(args[1])})"
        return ""

    def _dma(self, way: str, args: list[str]) -> str:
        matches = [_ATTRIBUTE.match(arg) for arg in args]
        given = {match[1]: self.operand(match[2]) for match in matches if match}
        names = ("size_in_granules", "dst_syncflagno", "src_syncflagno", "steps_per_stride")
        return f"m.dma({way!r},{','.join(given.get(name, 'None') for name in names)})"

    def move(self, instruction: Instruction) -> tuple[str, str]:
        """The register that `instruction` writes, and the expression of its new value."""
        register, value = self.register(instruction.result), self._expression(instruction)
        if instruction.guard:
            # A predicate that is not computed is false.
            old = "False" if instruction.result.startswith("p") else register
            value = f"select({self.operand(instruction.guard)},({value}),{old})"
        return register, f"({value})"

    def _expression(self, instruction: Instruction) -> str:
        op, operands = instruction.op, instruction.operands
        if op.startswith("inlined_call_operand") and (index := _ARGUMENT_INDEX.search(operands)):
            return f"m.arguments[{index[1]}]"
        if move := _PREDICATED_MOVE.match(operands):
            guard, old, new = map(self.operand, move.groups())
            return f"select({guard},{new},{old})"
        if op == "sld":
            return "0" if instruction.note == "core" else f"m.load({self.operand(operands)})"
        values = [self.operand(argument) for argument in instruction.arguments]
        if op in _EXPRESSIONS:
            return _EXPRESSIONS[op].format(*values)
        if op.startswith(("scalar_lea", "int_to_ptr")):
            return "+".join(values)
        if comparison := _COMPARISON.match(op):
            return _compare(*comparison.groups(), *values)
        if op == "spop.drf":
            return f"m.divide({values[0]},{instruction.note == 'kRem'})"
        return "UNKNOWN"


def _compare(relation: str, sign: str, left: str, right: str) -> str:
    if sign == "u":
        left, right = f"unsigned({left})", f"unsigned({right})"
    return f"({left}){_RELATIONS[relation]}({right})"
