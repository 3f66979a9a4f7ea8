"""Repairs Triton's interpreter where it differs from the compiler, for checks of kernels in it.

- A comparison's result keeps the type of its operands, so that a scalar one of floats becomes a
  float as soon as it meets a block, and `&` or `|` refuse it.
- A float argument stays a Python number: without `.to`, and with twice the digits of a float32.
"""

from __future__ import annotations


def mend() -> None:
    """In this process, from now on; a second call changes nothing."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    handle_of = interpreter.TensorHandle

    def with_bools(compare):
        def mended(self, left, right):
            return handle_of(compare(self, left, right).data, tl.int1)

        return mended

    def with_floats(convert):
        def mended(arg):
            if isinstance(arg, float):
                return tl.tensor(handle_of(np.array([arg], np.float32), tl.float32), tl.float32)
            return convert(arg)

        return mended

    if getattr(interpreter, "is_mended", False):
        return
    interpreter.is_mended = True
    builder = interpreter.InterpreterBuilder
    for name in dir(builder):
        if name.startswith(("create_fcmp", "create_icmp")):
            setattr(builder, name, with_bools(getattr(builder, name)))
    interpreter._implicit_cvt = with_floats(interpreter._implicit_cvt)
