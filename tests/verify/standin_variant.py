"""The variant that `standin.py` computes: a window, a soft cap and ALiBi slopes together."""

from pathlib import Path

from formulas import CAP, DISTANCE, IN_WINDOW, SLOPES, H, cap, window

from fagen.spec.expr import make, read
from fagen.spec.variant import SCORE, Tensor, Variant

STANDIN = Path(__file__).with_name("standin.py")
VARIANT = Variant(
    "capped_alibi_window",
    parameters=(window(11), cap()),
    tensors=(Tensor("slopes", ("heads",), "float32", default=SLOPES),),
    mask=IN_WINDOW,
    score=make(
        "sub",
        make("mul", CAP, make("tanh", make("div", SCORE, CAP))),
        make("mul", read("slopes", (H,), "float"), DISTANCE),
    ),
)
