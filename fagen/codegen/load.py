"""From a generated file, or straight from a variant, to an imported module.

A module registers operators under a name that holds its content's hash. Importing the same content
twice would register them twice, so this is done once a process, wherever the content lies.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

from fagen.codegen.render import render
from fagen.codegen.write import ready_folder, write_atomically
from fagen.spec.load import find_variant, load_variant
from fagen.spec.variant import Variant

_lock = threading.Lock()


def load(variant: str | os.PathLike[str] | Variant) -> ModuleType:
    """Renders a variant into the cache and imports it; nothing is verified.

    `variant` is a shipped one's name, the path of a YAML file, or a Variant. Raises SpecErrors for
    a faulty file, TypeError for anything else, and CannotWrite where the cache folder
    (`cache_folder`) refuses.
    """
    if not isinstance(variant, Variant):
        if not isinstance(variant, (str, os.PathLike)):
            raise TypeError(
                "load takes the name of a shipped variant, the path of a YAML file, or a Variant, "
                f"not {type(variant).__name__}"
            )
        variant = load_variant(find_variant(os.fspath(variant)))
    text = render(variant)
    folder = ready_folder(cache_folder() / f"{variant.name}-{_digest(text.encode())}")
    path = folder / f"{variant.name}.py"
    # Several processes may do this at once: each writes the same bytes, in one step.
    write_atomically(path, text)
    return load_module(path)


def load_module(path: str | os.PathLike[str]) -> ModuleType:
    """The generated module at `path`; the same object for the same content.

    Raises FileNotFoundError where there is none, and whatever the module itself raises.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"no module at {file}")
    name = f"fagen_module_{file.stem}_{_digest(file.read_bytes())}"
    with _lock:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def cache_folder() -> Path:
    """$FAGEN_CACHE, else fagen under $XDG_CACHE_HOME, else ~/.cache/fagen; modules lie inside."""
    chosen = os.environ.get("FAGEN_CACHE")
    if chosen:
        return Path(chosen, "modules")
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base else Path.home() / ".cache") / "fagen" / "modules"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
