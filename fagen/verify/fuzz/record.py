"""Trials kept on disk: the variant as YAML files, the call and its seeds as JSON beside them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from fagen.verify.fuzz.draft import Draft
from fagen.verify.fuzz.outcomes import Outcome, Trial, case_of


def save(folder: Path, trial: Trial, outcome: Outcome, **more: Any) -> Path:
    """Writes NAME.yaml, what it extends and NAME.json into the folder; the path of the last."""
    folder.mkdir(parents=True, exist_ok=True)
    trial.draft.write(folder)
    path = folder / f"{trial.draft.name}.json"
    content = {
        "files": list(trial.draft.texts()),
        "case": asdict(trial.case),
        "seed": trial.seed,
        "device": trial.device,
        "outcome": outcome.verdict,
        "stage": outcome.stage,
        "message": outcome.message,
        **more,
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Trial:
    """The trial that `save` wrote, with its YAML files as they are now.

    Raises OSError, ValueError or KeyError for what is no such record.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    files = []
    for name in content["files"]:
        mapping = yaml.safe_load((path.parent / name).read_text(encoding="utf-8"))
        files.append((Path(name).stem, mapping))
    case = case_of(content["case"])
    return Trial(Draft(tuple(files)), case, content["seed"], content["device"])
