"""`KernelPlan`: one role of one variant with every decision taken; templates only print it."""

from __future__ import annotations

from dataclasses import dataclass

from fagen.codegen.lifetimes import Role
from fagen.codegen.naming import words
from fagen.codegen.walk_lines import WalkStep


@dataclass(frozen=True)
class Loop:
    """One loop over tiles. `tile_lines` and `lines` are ready; the texts name what they computed.

    `tile_lines` concern vectors of the streamed side and stand before the products, so that no load
    of theirs falls between the start of an asynchronous product and its use.

    `keep` is the mask with the end of the streamed side, None for full tiles. `slope` is
    d(score')/d(score) where it is not constant; `row_shift` what is subtracted before exp2.
    """

    masked: bool
    before: tuple[str, ...]
    header: str
    start: tuple[str, ...]
    tile_lines: tuple[str, ...]
    lines: tuple[str, ...]
    keep: str | None
    score: str
    slope: str | None = None
    row_shift: str | None = None
    post_scale: str | None = None

    def texts(self) -> list[str | None]:
        named = (self.keep, self.score, self.slope, self.row_shift)
        return [*self.before, self.header, *self.start, *self.tile_lines, *self.lines, *named]

    @property
    def scores(self) -> str:
        return "scores" if self.masked else self.score

    @property
    def selects_gradient(self) -> bool:
        return self.masked and self.slope is not None

    @property
    def update_operands(self) -> str:
        return ", ".join(t for t in (self.scores, self.post_scale, "v") if t)

    @property
    def uses_kv_idx(self) -> bool:
        return "kv_idx" in words(self.texts())

    @property
    def uses_kv_column(self) -> bool:
        return not words(self.texts()).isdisjoint({"kv_idx", "kv_column"})

    @property
    def uses_q_idx(self) -> bool:
        return "q_idx" in words(self.texts())

    @property
    def uses_q_row(self) -> bool:
        return not words(self.texts()).isdisjoint({"q_idx", "q_row"})


class _Uses:
    """What a template asks about the variables that a kernel's lines mention.

    `ends_meet`: the last query of a sequence stands at its last key, wherever that is.
    """

    uses: frozenset[str]
    ends_meet: bool

    def _uses(self, *names: str) -> bool:
        return not self.uses.isdisjoint(names)

    @property
    def _located(self) -> frozenset[str]:
        """Results of `locate` that the kernel reads."""
        found = set(self.uses)
        if self.uses_q_start:
            found.add("q_block")
        if self.uses_kv_start:
            found.add("kv_block")
        if self._uses("q_in_range", "q_hi"):
            found.add("q_len")
        if self._uses("kv_in_range", "kv_hi"):
            found.add("kv_len")
        if self.places_queries_at_end:
            found |= {"q_len", "kv_len"}
        return frozenset(found)

    @property
    def names_of_rows(self) -> str:
        names = ("b", "q_block", "q_first", "q_len", "kv_first", "kv_len")
        return ", ".join(n if n in self._located else "_" for n in names)

    @property
    def names_of_keys(self) -> str:
        names = ("b", "kv_block", "kv_first", "kv_len", "q_first", "q_len")
        return ", ".join(n if n in self._located else "_" for n in names)

    @property
    def places_queries_at_end(self) -> bool:
        return self.ends_meet and self._uses("q_offset", "q_idx", "q_lo", "q_hi")

    @property
    def uses_total_q(self) -> bool:
        return self._uses("total_q")

    @property
    def uses_total_kv(self) -> bool:
        return self._uses("total_kv")

    @property
    def uses_q_row(self) -> bool:
        return self._uses("q_idx", "q_row", "q_in_range")

    @property
    def uses_q_idx(self) -> bool:
        return self._uses("q_idx")

    @property
    def uses_q_in_range(self) -> bool:
        return self._uses("q_in_range")

    @property
    def uses_q_lo(self) -> bool:
        return self._uses("q_lo")

    @property
    def uses_q_start(self) -> bool:
        return self.uses_q_row or self.uses_q_lo or self.uses_q_hi

    @property
    def uses_kv_start(self) -> bool:
        return self.uses_kv_column or self.uses_kv_lo or self.uses_kv_hi

    @property
    def uses_q_hi(self) -> bool:
        return self._uses("q_hi")

    @property
    def uses_kv_column(self) -> bool:
        return self._uses("kv_idx", "kv_column", "kv_in_range")

    @property
    def uses_kv_idx(self) -> bool:
        return self._uses("kv_idx")

    @property
    def uses_kv_in_range(self) -> bool:
        return self._uses("kv_in_range")

    @property
    def uses_kv_lo(self) -> bool:
        return self._uses("kv_lo")

    @property
    def uses_kv_hi(self) -> bool:
        return self._uses("kv_hi")


@dataclass(frozen=True)
class WalkPlan(_Uses):
    """A walk whose tests run in a kernel of their own, once for all programs that share it.

    That kernel writes a row for each block of the stationary side, [batch, heads, blocks, row]
    without the axes that the walk does not depend on. Blocks of packed sequences stand behind each
    other as those of one. A row begins with `results`: the ends of the tile ranges, or, where the
    walk `lists` tiles, how many are full and how many masked. Then follow the full ones, and from
    the row's end backwards the masked ones.

    `in_range` tells which stationary rows exist. The streamed side has `streamed_length` indices,
    `longest` in the longest sequence, and tiles of `block`.
    """

    program_lines: tuple[str, ...]
    walk: tuple[WalkStep, ...]
    results: tuple[str, ...]
    lists: bool
    in_range: str
    streamed_length: str
    longest: str
    block: str
    by_batch: bool
    by_head: bool
    uses: frozenset[str]
    ends_meet: bool

    @property
    def place_lines(self) -> list[str]:
        """Lines that take `program` apart."""
        lines = ["h = program // blocks % heads"] if self.by_head else []
        lines.append("matrix = program // blocks" + (" // heads" if self.by_head else ""))
        if self._uses("kv_h"):
            lines.append("kv_h = h // (heads // kv_heads)")
        return lines

    @property
    def row_line(self) -> str:
        """Where the row of a program of the walk kernel begins."""
        return f"walk = walk_ptr + {self._offset('program')}"

    def _offset(self, row: str) -> str:
        if not self.lists:
            return f"{row} * {len(self.results)}"
        # Lists are as long as the walk may be: together they may pass 2**31.
        return f"{row}.to(tl.int64) * walk_stride_0"

    @property
    def row_length(self) -> str:
        """Numbers in a row, as the launcher computes them; a list may be read one past its end."""
        if not self.lists:
            return str(len(self.results))
        return f"triton.cdiv({self.longest}, config.{self.block}) + {len(self.results) + 1}"

    @property
    def longest_list(self) -> str:
        """Tiles for which a row has room, as the walk kernel computes them."""
        return f"walk_stride_0 - {len(self.results) + 1}"

    @property
    def store_lines(self) -> list[str]:
        return [f"tl.store(walk + {i}, {result})" for i, result in enumerate(self.results)]

    @property
    def load_steps(self) -> tuple[WalkStep, ...]:
        """What the program of a slot does instead of walking."""
        row = {
            (True, True): "((matrix * heads + h) * blocks + slot)",
            (True, False): "(matrix * blocks + slot)",
            (False, True): "(h * blocks + slot)",
            (False, False): "slot",
        }[self.by_batch, self.by_head]
        lines = [f"walk = walk_ptr + {self._offset(row)}"]
        least = "0"
        for i, result in enumerate(self.results):
            # Ends ascend. Said again here, since ptxas gives up on overlapping the products of
            # loops whose counts it cannot bound (C7515).
            lines.append(f"{result} = tl.maximum(tl.load(walk + {i}), {least})")
            least = "0" if self.lists else result
        return tuple(WalkStep(line) for line in lines)

    @property
    def programs(self) -> str:
        """How many there are, as the launcher computes it."""
        return f"blocks{' * heads' * self.by_head}{' * batch' * self.by_batch}"


@dataclass(frozen=True)
class TabulatePlan:
    """A kernel that fills a table by distance: `lines` compute `entry` for a vector `gap`."""

    program_lines: tuple[str, ...]
    lines: tuple[str, ...]
    entry: str

    @property
    def uses(self) -> frozenset[str]:
        return words([*self.program_lines, *self.lines, self.entry])

    @property
    def uses_kv_h(self) -> bool:
        return "kv_h" in self.uses


@dataclass(frozen=True)
class KernelPlan(_Uses):
    """What a template needs to print one kernel.

    `constant_slope`, finite, multiplies dq and dk at the end; where the derivative varies it is 1
    and each loop has its `slope`. `epilogue` computes `sink` (base 2, relative to the row term),
    `own_sink` (natural, by itself; only beside a row term) and `row_term` (natural) on flat vectors
    of rows.
    """

    role: Role
    program_lines: tuple[str, ...]
    head_lines: tuple[str, ...]
    walk: tuple[WalkStep, ...]
    walk_in_head_loop: bool
    loops: tuple[Loop, ...]
    post_scale: str | None
    reads_qk: bool
    constant_slope: float
    epilogue: tuple[str, ...]
    sink: str | None
    own_sink: str | None
    row_term: str | None
    uses: frozenset[str]
    ends_meet: bool

    @property
    def _located(self) -> frozenset[str]:
        own = {"q_first", "q_len", "kv_first", "kv_len", "q_block", "kv_block"}
        return super()._located | own | words(self.epilogue)

    @property
    def places_queries_at_end(self) -> bool:
        return self.ends_meet and (super().places_queries_at_end or self.epilogue_uses_q_idx)

    @property
    def uses_total_q(self) -> bool:
        # Streamed rows lie in vectors of all rows.
        return (
            super().uses_total_q or "total_q" in words(self.epilogue) or self.role.streamed == "q"
        )

    @property
    def uses_total_kv(self) -> bool:
        return super().uses_total_kv or "total_kv" in words(self.epilogue)

    @property
    def walk_once(self) -> bool:
        return not self.walk_in_head_loop

    @property
    def trains_qk(self) -> bool:
        """Whether q and k receive a gradient at all."""
        return self.constant_slope != 0.0

    @property
    def recomputes_qk(self) -> bool:
        return self.reads_qk or self.trains_qk

    @property
    def qk_factor(self) -> str:
        return "scale" if self.constant_slope == 1.0 else f"scale * {self.constant_slope!r}"

    @property
    def epilogue_uses_q_idx(self) -> bool:
        return "q_idx" in words(self.epilogue)
