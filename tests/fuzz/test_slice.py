"""A slice of a campaign: some seeds that stay, so that a change shows, and some drawn anew."""

from random import SystemRandom

import pytest

from fagen.verify.fuzz.campaign import campaign

#: Seconds after which no more trials begin, for each of the two.
SECONDS = 25.0


def said(summary):
    texts = (
        f"seed {f.number}: {f.outcome.message}\n{f.small.draft.texts()}\n{f.small.case}"
        for f in summary.findings
    )
    return "\n".join(texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20_000, None], ids=["fixed", "random"])
def test_random_variants_hold(seed):
    seed = SystemRandom().randrange(2**31) if seed is None else seed
    print(f"fagen fuzz --device cpu --seed {seed}")
    summary = campaign(count=24, seed=seed, device="cpu", seconds=SECONDS, workers=2)
    assert summary.ok, said(summary)
    assert summary.counts["ok"] >= 3
    assert summary.counts["refused"] + summary.counts["unsettled"] <= 4, summary.refusals
