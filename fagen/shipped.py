"""Where the folders that ship with fagen are: templates, variants, tuned configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent


def folder(name: Literal["templates", "variants", "tune_cache"]) -> Path:
    """The folder `name`: inside the package in a wheel, beside it in a checkout.

    Raises FileNotFoundError when the installation has neither.
    """
    installed = _PACKAGE / "_shipped" / name
    if installed.is_dir():
        return installed
    checkout = _PACKAGE.parent
    # Without the second condition, another distribution's `templates` in site-packages would do.
    if (checkout / name).is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout / name
    raise FileNotFoundError(
        f"fagen's `{name}` folder is missing: neither {installed} nor {checkout / name} exists. "
        "Reinstall with `pip install --force-reinstall fagen`, or run from a complete checkout."
    )
