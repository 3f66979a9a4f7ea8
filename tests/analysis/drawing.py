"""How property tests draw: seeds for variety, hypothesis' own choices for what shrinks."""

from random import Random

from hypothesis import strategies as st

sources = st.one_of(
    st.integers(0, 2**32 - 1).map(Random),
    st.integers(0, 2**32 - 1).map(Random),
    st.randoms(use_true_random=False),
)
