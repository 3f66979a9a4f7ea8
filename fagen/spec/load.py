"""From a file, a text or a shipped variant's name to a `Variant`."""

from __future__ import annotations

from pathlib import Path

from fagen.spec.assemble import assemble
from fagen.spec.errors import Diagnostic, SpecErrors, did_you_mean
from fagen.spec.inherit import read_family
from fagen.spec.source import LARGEST_FILE, Source
from fagen.spec.variant import Variant

SUFFIXES = (".yaml", ".yml")


def shipped_folder() -> Path:
    """Where the variants that ship with fagen are: in the wheel, else at the repository's top."""
    packaged = Path(__file__).parents[1] / "_shipped" / "variants"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "variants"


def shipped_files() -> dict[str, Path]:
    """The shipped variants' files by name: those at the top first, then folder by folder."""
    top = shipped_folder()
    found = (path.relative_to(top) for path in top.rglob("*.yaml"))
    ordered = sorted(found, key=lambda path: (path.parent.parts, path.stem))
    return {path.stem: top / path for path in ordered}


def shipped_names() -> list[str]:
    """The names of the shipped variants in the order of `shipped_files`."""
    return list(shipped_files())


def find_variant(name_or_path: str | Path) -> Path:
    """The file of a variant given by its path or by the name of a shipped one.

    Raises SpecErrors, with the closest name, when there is neither.
    """
    text = str(name_or_path)
    path = Path(text)
    # `./causal` is a path although Path drops the dot.
    if path.suffix in SUFFIXES or "/" in text or len(path.parts) > 1 or _is_file(path):
        return path
    shipped = shipped_files()
    if text in shipped:
        return shipped[text]
    hint = did_you_mean(text, shipped) or "`fagen list` names those that ship"
    raise SpecErrors([Diagnostic(f"there is no variant `{text}`", hint=hint)])


def load_variant(path: str | Path) -> Variant:
    """The variant described by a YAML file. Raises SpecErrors with every error of the file."""
    return _load(_read(Path(path)))


def load_text(text: str, path: str = "<text>") -> Variant:
    """The variant described by YAML text; `path` is the file's name in errors."""
    return _load(Source(path, text))


def _load(source: Source) -> Variant:
    problems: list[Diagnostic] = []
    family = read_family(source, _parent, problems)
    variant = assemble(family, source, problems) if family is not None else None
    if problems or variant is None:
        own = [d for d in problems if d.path == source.path]
        others = [d for d in problems if d.path != source.path]
        own.sort(key=lambda d: (d.line, d.column))
        raise SpecErrors(dict.fromkeys([*own, *others]))
    return variant


def _parent(name: str, child: str) -> Source:
    """The file that a variant extends: beside it, else a shipped one."""
    beside = Path(child).parent
    options = [beside / name, *(beside / f"{name}{suffix}" for suffix in SUFFIXES)]
    found = next((option for option in options if _is_file(option)), None)
    return _read(found if found is not None else find_variant(name))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def _read(path: Path) -> Source:
    shown = str(path)

    def refused(message: str, hint: str) -> SpecErrors:
        return SpecErrors([Diagnostic(message, shown, hint=hint)])

    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE * 4)
        return Source(shown, content.decode("utf-8-sig"))
    except FileNotFoundError:
        siblings = [p.name for s in SUFFIXES for p in path.parent.glob(f"*{s}")]
        hint = did_you_mean(path.name, siblings) or "`fagen new NAME` writes a file to start from"
        raise refused("there is no such file", hint) from None
    except IsADirectoryError:
        raise refused("this is a folder, not a variant file", "name a file in it") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        hint = f"save it as UTF-8; the first foreign byte is on line {line}"
        raise refused("the file is not UTF-8", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refused(f"cannot read the file: {reason}", "check its path and permissions") from None
