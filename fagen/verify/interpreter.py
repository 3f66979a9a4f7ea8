"""Repairs Triton's interpreter where it differs from the compiler, for whoever checks kernels in it.

A comparison's result there keeps the type of its operands, so that a scalar one of floats becomes
a float as soon as it meets a block, and `&` or `|` refuse it.
"""

from __future__ import annotations


def mend() -> None:
    """Comparisons yield bools from now on, in this process; a second call changes nothing."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def with_bools(compare):
        def mended(self, left, right):
            return TensorHandle(compare(self, left, right).data, tl.int1)

        mended.yields_bools = True  # type: ignore[attr-defined]
        return mended

    for name in dir(InterpreterBuilder):
        if name.startswith(("create_fcmp", "create_icmp")):
            compare = getattr(InterpreterBuilder, name)
            if not hasattr(compare, "yields_bools"):
                setattr(InterpreterBuilder, name, with_bools(compare))
