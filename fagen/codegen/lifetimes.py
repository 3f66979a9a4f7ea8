"""Roles map axes to lifetimes; an expression's index set and the role say where it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fagen.spec.names import Axes


class Lifetime(IntEnum):
    """How long a value lives, from the whole program down to one element of one tile."""

    PROGRAM = 0
    ROWS = 1
    HEAD = 2
    TILE = 3
    ELEMENT = 4


@dataclass(frozen=True)
class Role:
    """`stationary` is the axis of the rows a program holds, `streamed` the one it walks along.

    `loops_over_heads`: query heads that share a key/value head are visited one after another, so
    that h is a scalar of that loop rather than of the program.
    """

    name: str
    stationary: str
    streamed: str
    loops_over_heads: bool

    def lifetime(self, axes: Axes) -> Lifetime:
        if self.streamed in axes:
            return Lifetime.ELEMENT if self.stationary in axes else Lifetime.TILE
        if "h" in axes and self.loops_over_heads:
            return Lifetime.HEAD
        return Lifetime.ROWS if self.stationary in axes else Lifetime.PROGRAM

    def describe(self) -> dict[str, str]:
        """Axis -> what it is in this role, for people."""
        return {
            "b": "program constant",
            "h": "streamed scalar" if self.loops_over_heads else "program constant",
            self.stationary: "stationary vector",
            self.streamed: "streamed vector",
        }


FORWARD = Role("forward", "q", "kv", False)
QUERY_WALK = Role("query_walk", "q", "kv", False)
TABULATE = Role("tabulate", "q", "kv", False)
KEY_WALK = Role("key_walk", "kv", "q", False)
BACKWARD_DQ = Role("backward_dq", "q", "kv", False)
BACKWARD_DKDV = Role("backward_dkdv", "kv", "q", True)
ROLES = (FORWARD, BACKWARD_DKDV, BACKWARD_DQ)
