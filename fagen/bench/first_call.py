"""The time to a first result: one peer in a fresh process with empty kernel caches.

`python -m fagen.bench.first_call --peer ours --module FILE --variant causal --shape 0` prints one
JSON object: seconds to import, of the first forward and of the first backward (compilation and
work), and of the second of each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PEERS = ("ours", "flex", "cudnn")


def measure(peer: str, module_path: str, variant: str, shape: str) -> dict[str, float]:
    """Seconds of the import of everything the peer needs, then of first and second passes."""
    start = time.perf_counter()
    import torch

    from fagen.bench.cases import case_of
    from fagen.bench.modules import call, import_module
    from fagen.bench.peers import Contestant, cudnn, flex, flex_block_mask, prepare_torch
    from fagen.bench.problem import parse_problem
    from fagen.bench.timing import seconds_of

    module = import_module(Path(module_path)) if peer == "ours" else None
    imported = time.perf_counter() - start
    device = "cuda" if torch.cuda.is_available() else "cpu"
    prepare_torch()
    problem = parse_problem(shape)
    case = case_of(variant, problem, device)
    leaves, d_out = problem.inputs(device, 0)

    def contestant() -> Contestant | None:
        if module is not None:
            return Contestant("ours", call(module, case, leaves), leaves)
        if peer == "flex":
            return flex(case, leaves, {}, flex_block_mask(case, device))
        return cudnn(case, leaves, d_out)

    made = contestant()
    if made is None:
        raise ValueError(f"{peer} cannot express `{variant}`")
    first, _ = seconds_of(made.forward)
    second, _ = seconds_of(made.forward)
    backward = made.backward(d_out)
    first_back, _ = seconds_of(backward)
    second_back, _ = seconds_of(backward)
    return {
        "import": imported,
        "first forward": first,
        "first backward": first_back,
        "second forward": second,
        "second backward": second_back,
    }


def in_fresh_processes(
    variant: str, shape: str, module_path: Path, *, seconds: float = 120.0
) -> dict[str, Mapping[str, Any]]:
    """`measure` of every peer, each in a process of its own, side by side; errors are values."""
    running: dict[str, Any] = {}
    results: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        for peer in PEERS:
            environment = {
                **{n: x for n, x in os.environ.items() if n != "TORCHINDUCTOR_COMPILE_THREADS"},
                "TRITON_CACHE_DIR": f"{caches}/{peer}/triton",
                "TORCHINDUCTOR_CACHE_DIR": f"{caches}/{peer}/inductor",
            }
            arguments = ["--peer", peer, "--module", str(module_path)]
            arguments += ["--variant", variant, "--shape", shape]
            running[peer] = subprocess.Popen(
                [sys.executable, "-m", "fagen.bench.first_call", *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        end = time.monotonic() + seconds
        for peer, process in running.items():
            try:
                printed, trouble = process.communicate(timeout=max(1.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                results[peer] = {"error": f"not done after {seconds:.0f} s"}
                continue
            if process.returncode:
                last = trouble.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
                results[peer] = {"error": last[0][:300]}
            else:
                results[peer] = json.loads(printed.strip().splitlines()[-1])
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--module", default="")
    parser.add_argument("--variant", required=True)
    parser.add_argument("--shape", required=True)
    given = parser.parse_args(arguments)
    print(json.dumps(measure(given.peer, given.module, given.variant, given.shape)))


if __name__ == "__main__":
    main()
