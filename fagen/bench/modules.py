"""The generated module of a variant: rendered or prebuilt, imported, and called on a case."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from fagen.bench.problem import Case

ROLES = ("forward", "dkdv", "dq", "prep")
CONFIG_FIELDS = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
ConfigNumbers = Mapping[str, int]
RoleConfigs = Mapping[str, ConfigNumbers]

#: Keywords of `attention` that are neither parameters nor tensors of the variant.
CALL_OPTIONS = {
    "scale", "return_lse", "q_offset", "kv_offset", "deterministic", "partition", "config",
}  # fmt: skip


def write_module(variant: str, folder: Path) -> Path:
    """Renders a shipped variant into `folder`/NAME.py and returns that path."""
    # Here and not above: a run on prebuilt modules needs no renderer, and so no jinja2.
    from fagen.codegen.render import render
    from fagen.spec.load import find_variant, load_variant

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{variant}.py"
    path.write_text(render(load_variant(find_variant(variant))))
    return path


def import_module(path: Path) -> ModuleType:
    """The module at `path`, executed once a process; FileNotFoundError when there is none.

    A second execution would register its custom ops again and take them from the first.
    """
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(f"no module at {path}")
    name = f"fagen_bench_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def check_arguments(module: ModuleType, case: Case) -> None:
    """TypeError where the case and the module's `attention` disagree on their arguments."""
    keywords = {
        name: p
        for name, p in inspect.signature(module.attention).parameters.items()
        if p.kind is p.KEYWORD_ONLY and name not in CALL_OPTIONS
    }
    unknown = sorted(set(case.arguments) - set(keywords))
    missing = sorted(
        name for name, p in keywords.items() if p.default is p.empty and name not in case.arguments
    )
    if unknown or missing:
        raise TypeError(
            f"`{case.variant}`: attention() does not take {unknown}, and still needs {missing}; "
            f"it has {sorted(keywords)}"
        )


def call(
    module: ModuleType,
    case: Case,
    leaves: Sequence[Tensor],
    configs: RoleConfigs | None = None,
    **options: Any,
) -> Callable[[], Any]:
    """The module's attention on `leaves` (q, k, v) as a function without arguments."""
    q, k, v = leaves
    keywords: dict[str, Any] = {**case.arguments, **options}
    if configs:
        keywords["config"] = {role: module.Config(**c) for role, c in configs.items()}
    attention = module.attention
    return lambda: attention(q, k, v, **keywords)


def parse_configs(document: Any) -> dict[str, dict[str, dict[str, int]]]:
    """Checks a configuration file's content: key -> role -> numbers; ValueError names the fault.

    Keys: `VARIANT/D128`, `VARIANT`, `D128` or `*`. A document whose keys are roles counts as `*`.
    """
    if not isinstance(document, dict):
        raise ValueError("the configurations must be a JSON object")
    if document and set(document) <= set(ROLES):
        document = {"*": document}
    for key, roles in document.items():
        if not isinstance(roles, dict):
            raise ValueError(f"`{key}` must map roles to configurations")
        for role, numbers in roles.items():
            if role not in ROLES:
                raise ValueError(f"`{key}`: unknown role `{role}`; roles are {', '.join(ROLES)}")
            if not isinstance(numbers, dict) or set(numbers) != set(CONFIG_FIELDS):
                raise ValueError(f"`{key}`.`{role}` must have exactly {', '.join(CONFIG_FIELDS)}")
            for field, number in numbers.items():
                if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                    raise ValueError(f"`{key}`.`{role}`.{field} must be a whole number >= 1")
    return document


def configs_for(
    table: Mapping[str, RoleConfigs], variant: str, head_dim: int
) -> dict[str, ConfigNumbers]:
    """The configuration of each role: the most specific key that has the role wins."""
    chosen: dict[str, ConfigNumbers] = {}
    for key in ("*", f"D{head_dim}", variant, f"{variant}/D{head_dim}"):
        chosen.update(table.get(key, {}))
    return chosen
