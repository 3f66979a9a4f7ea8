"""The commands: each turns arguments into calls, and what they return into text or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import fagen
from fagen.cli import FAILED, building, problems, text
from fagen.cli.problems import output
from fagen.cli.targets import is_target, targets_of
from fagen.codegen.write import ready_folder
from fagen.device.local import known_local_target, local_targets
from fagen.spec.variant import Variant

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Turns YAML descriptions of attention variants into proven, self-contained modules of "
    "Triton kernels. Data goes to stdout, all else to stderr. Exit codes: 0 all is well; 1 a "
    "verification failed, a kernel does not run on a target, or --check found a stale file; "
    "2 an error of the user; 3 a fault of fagen; 130 interrupted.",
)

#: Reported where no GPU is at hand: what the hand-picked configs were picked on.
USUAL_TARGET = "sm_90"


#: What random generators take, with room to count up.
LARGEST_SEED = 2**62


class Device(StrEnum):
    """Where kernels run to be verified."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Level(StrEnum):
    """How many cases."""

    quick = "quick"
    full = "full"
    shapes = "shapes"


Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="YAML files, or names of variants that ship."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def say(message: str) -> None:
    typer.echo(message, err=True)


def say_notes(variants: Iterable[Variant]) -> None:
    for variant in variants:
        for note in variant.notes:
            say(f"{note}\n")


def print_json(value: Any) -> None:
    output(json.dumps(value, indent=2))


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        with problems.reported():
            output(f"fagen {fagen.__version__}")
        raise typer.Exit


@app.command()
def build(
    files: Files,
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR")] = Path("build"),
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="A GPU to report on, such as sm_90, gfx942 or h100; several, separated by spaces "
            "or commas. Default: this machine's, else sm_90."
        ),
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Write without proof.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say whether DIR/NAME.py is current.")
    ] = False,
    json: Json = False,
) -> None:
    """Write DIR/NAME.py for every FILE, once it is proven, and say what its kernels take."""
    with problems.reported():
        # `--target sm_90 gfx942`: the second reads as a FILE to any parser of options.
        given = target or []
        targets = targets_of([*given, *(name for name in files if is_target(name))])
        names = [name for name in files if not is_target(name)]
        if not names:
            hint = "name a variant file, or a variant that ships"
            raise problems.UserError(f"{', '.join(files)}: targets, but nothing to build", hint)
        variants = building.read_variants(names)
        say_notes(variants)
        renderings = building.renderings(variants, folder)
        if check:
            results = [building.check(r) for r in renderings]
            if json:
                print_json({"modules": [r.to_json() for r in results]})
            else:
                output("\n".join(text.checked(r) for r in results))
            failed = any(r.state != "current" for r in results)
        else:
            chosen = list(dict.fromkeys(targets)) or [known_local_target() or USUAL_TARGET]
            failed = _build_all(renderings, chosen, folder, not no_verify, json)
    raise typer.Exit(FAILED if failed else 0)


def _build_all(
    renderings: list[building.Rendering], targets: list[str], folder: Path, verify: bool, json: bool
) -> bool:
    ready_folder(folder)
    built = []
    for rendering in renderings:
        built.append(building.build(rendering, targets, verify=verify, say=say))
        if not json:
            output(text.built(built[-1]) + "\n" * (len(built) < len(renderings)))
    if json:
        print_json({"modules": [b.to_json() for b in built]})
    return not all(b.ok for b in built)


@app.command()
def verify(
    files: Files,
    level: Annotated[Level, typer.Option(help="How many cases.")] = Level.quick,
    device: Annotated[
        Device, typer.Option(help="cpu interprets the kernels, cuda runs them.")
    ] = Device.auto,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Repeat the inputs of a report.")
    ] = None,
    json: Json = False,
) -> None:
    """Hold each FILE's module, as it would be written now, against float64."""
    with problems.reported():
        if device is Device.cuda and not local_targets():
            raise problems.UserError("there is no CUDA device here", "`--device cpu` interprets")
        variants = building.read_variants(files)
        reports = {}
        for variant in variants:
            say(f"{variant.name}: verifying")
            report = building.prove(variant, level.value, device.value, seed)
            reports[variant.name] = report
            if not json:
                output(text.verified(variant.name, report))
        if json:
            entries = [
                {"name": name, **building.report_json(r, cases=True)} for name, r in reports.items()
            ]
            print_json({"variants": entries})
    raise typer.Exit(0 if all(r.ok for r in reports.values()) else FAILED)


class Dtype(StrEnum):
    """Element type of q, k and v."""

    fp16 = "fp16"
    bf16 = "bf16"
    fp32 = "fp32"


def _length(what: str) -> Any:
    return typer.Option(min=1, help=what)


@app.command()
def explain(
    files: Files,
    batch: Annotated[int, _length("Sequences.")] = 4,
    heads: Annotated[int, _length("Query heads.")] = 16,
    kv_heads: Annotated[int | None, _length("Key/value heads; default: as heads.")] = None,
    q_len: Annotated[int, _length("Queries of a sequence.")] = 4096,
    kv_len: Annotated[int | None, _length("Keys of a sequence; default: as q-len.")] = None,
    head_dim: Annotated[int, _length("Width of q and k.")] = 128,
    head_dim_v: Annotated[int | None, _length("Width of v; default: as head-dim.")] = None,
    dtype: Annotated[Dtype, typer.Option(help="Of q, k and v.")] = Dtype.bf16,
    set: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter's value.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE.npy", help="A table's values.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what each FILE became: segments, lifetimes, rewrites, derivative, FLOPs and bytes.

    The options give the problem whose FLOPs and bytes are counted.
    """
    from fagen.cli import costing
    from fagen.codegen.explain import explain as explanation_of
    from fagen.codegen.plan import plan_module

    with problems.reported():
        shapes = (batch, heads, kv_heads, q_len, kv_len, head_dim, head_dim_v)
        problem = costing.problem_of(*shapes, dtype.value)
        variants = building.read_variants(files)
        say_notes(variants)
        found = [
            (
                explanation_of(plan_module(variant)),
                costing.costs(variant, problem, dtype.value, set or (), table or ()),
            )
            for variant in variants
        ]
        if json:
            entries = [
                {**asdict(e), "notes": building.notes_json(v), "costs": c.to_json()}
                for v, (e, c) in zip(variants, found, strict=True)
            ]
            print_json({"variants": entries})
        else:
            output("\n\n".join(text.explained(e, c) for e, c in found))


@app.command()
def fuzz(
    count: Annotated[int | None, typer.Option(min=1, help="How many; default 100.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_SEED, help="Of the first; the others count up from it."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time after which no more begin: 90s, 10m, 1h.")
    ] = None,
    device: Annotated[
        Device, typer.Option(help="cpu interprets the kernels, cuda runs them.")
    ] = Device.auto,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one a core.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write failures there, made small.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Compile the kernels for this GPU too: sm_90, h100.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Repeat a kept failure: its JSON.")
    ] = None,
    json: Json = False,
) -> None:
    """Hold random variants, called at random, against float64, and make small what fails.

    At the end stands what was covered of the language, of the plans and of the calls.
    """
    from fagen.cli import fuzz as fuzzing

    with problems.reported():
        if replay is not None:
            outcome = fuzzing.again(replay)
            failed = outcome.verdict != "ok"
            if json:
                print_json(outcome.to_json())
            else:
                output(f"{replay}: {fuzzing.said(outcome)}")
        else:
            summary = fuzzing.run(
                count=count, seed=seed, budget=budget, device=device.value, workers=workers,
                keep=keep, target=target, say=say,
            )  # fmt: skip
            failed = not summary.ok
            if json:
                print_json(summary.to_json())
            else:
                output(fuzzing.report(summary))
    raise typer.Exit(FAILED if failed else 0)


@app.command("list")
def list_variants(json: Json = False) -> None:
    """List the variants that ship."""
    from fagen.spec.load import shipped_names

    with problems.reported():
        variants = building.read_variants(shipped_names())
        if json:
            entries = [
                {"name": v.name, "description": v.description, "path": v.path} for v in variants
            ]
            print_json({"variants": entries})
        else:
            rows = [[v.name, v.description] for v in variants]
            output(text.table(["variant", "what it does"], rows))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Of the variant; the file is NAME.yaml.")],
) -> None:
    """Write a commented file to start from; an existing one is never touched."""
    from fagen.spec.load import shipped_names
    from fagen.spec.starter import starter

    with problems.reported():
        content, path = starter(name), Path(f"{name}.yaml")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError:
            raise problems.UserError(f"`{path}` exists", "choose another name") from None
        except OSError as error:
            raise problems.UserError(f"cannot write `{path}`: {error.strerror}", "") from None
        output(str(path))
        say(f"`fagen build {path}` builds it")
        if name in shipped_names():
            say(f"note: a variant that ships is called `{name}` too; `fagen build {name}` is that")


@app.command()
def schema() -> None:
    """Print the JSON Schema of variant files, for editors."""
    from fagen.spec.document import json_schema

    with problems.reported():
        print_json(json_schema())
