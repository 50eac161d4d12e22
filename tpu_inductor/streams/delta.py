"""Writes the change of a value: from the tags' old and new values to its shift or its scale."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.streams.action import Apply, Change, Delta
from tpu_inductor.streams.rewrite import Rewriter

LARGEST = {DType.F32: 3.4028234663852886e38, DType.F64: sys.float_info.max}


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """Appends row equations in `dtype`; a tag whose old and new value are one does not change."""

    rw: Rewriter
    eqn: Eqn
    dtype: DType
    old: Mapping[Var, Value]
    new: Mapping[Var, Value]

    def write(self, delta: Delta) -> Value | None:
        """The value of `delta`, None where nothing changes."""
        if isinstance(delta, Change):
            return self._change(delta, negated=False)
        if delta.prim == "neg" and isinstance(delta.args[0], Change):
            return self._change(delta.args[0], negated=True)
        args = [self.write(arg) for arg in delta.args]
        if len(args) == 2:
            return self._binary(delta.prim, *args)
        return None if args[0] is None else self._unary(delta, args[0])

    def _change(self, delta: Change, negated: bool) -> Value | None:
        old, new = self.old[delta.tag], self.new[delta.tag]
        if old == new:
            return None
        ends = [self.rw.convert(self.eqn, v, self.dtype) for v in (new, old)]
        return self.rw.row_op(self.eqn, delta.how, *(reversed(ends) if negated else ends))

    def _unary(self, delta: Apply, arg: Value) -> Value:
        if delta.prim == "reciprocal":
            return self.rw.row_op(self.eqn, "div", Lit(1.0, self.dtype), arg)
        attrs = None if isinstance(delta.attrs, A.NoAttrs) else delta.attrs
        return self.rw.row_op(self.eqn, delta.prim, arg, attrs=attrs)

    def _binary(self, prim: str, left: Value | None, right: Value | None) -> Value | None:
        if right is None:
            return left
        if left is not None:
            return self.rw.row_op(self.eqn, prim, left, right)
        if prim == "sub":
            return self.rw.row_op(self.eqn, "neg", right)
        one = Lit(1.0, self.dtype)
        return self.rw.row_op(self.eqn, "div", one, right) if prim == "div" else right
