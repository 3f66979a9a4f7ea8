"""Where a table's numbers come from: card, driver, versions, commit, command."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import fagen


def provenance(modules: Mapping[str, Path]) -> dict[str, Any]:
    """A JSON-ready record of this run; what the machine does not tell is None."""
    card = None
    if torch.cuda.is_available():
        facts = torch.cuda.get_device_properties(0)
        card = {
            "name": facts.name,
            "capability": f"{facts.major}.{facts.minor}",
            "multiprocessors": facts.multi_processor_count,
            "memory_bytes": facts.total_memory,
        }
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.executable).name, *sys.orig_argv[1:]],
        "card": card,
        "driver": _printed("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "triton": _installed("triton"),
        "fagen": fagen.__version__,
        "commit": _printed("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"),
        "cores": os.cpu_count(),
        "modules": {
            name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            for name, path in modules.items()
        },
    }


def _printed(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_atomically(path: Path, text: str) -> None:
    """Replaces `path` in one step: a run cut short leaves the last complete version."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text)
    partial.replace(path)


def write_json(path: Path, document: Any) -> None:
    write_atomically(path, json.dumps(document, indent=1, sort_keys=False) + "\n")
