"""The NVIDIA GPUs of this machine, asked of the driver: no torch, and no GPU context, is needed."""

from __future__ import annotations

import shutil
import subprocess

from fagen.device.gpus import ARCHITECTURES


def local_targets() -> list[str]:
    """The target of each visible GPU ("sm_90"), in the driver's order; empty without any."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if listed.returncode != 0:
        return []
    capabilities = [line.strip() for line in listed.stdout.splitlines() if line.strip()]
    return [f"sm_{capability.replace('.', '')}" for capability in capabilities]


def known_local_target() -> str | None:
    """The target of the first GPU, if fagen has its facts."""
    return next((target for target in local_targets()[:1] if target in ARCHITECTURES), None)
