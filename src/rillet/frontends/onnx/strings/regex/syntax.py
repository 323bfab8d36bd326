"""The parsed form of a regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from rillet.frontends.onnx.strings.regex.charset import Runs


class At(Enum):
    """Places that an assertion asks for."""

    TEXT_BEGIN = auto()
    TEXT_END = auto()
    LINE_BEGIN = auto()
    LINE_END = auto()
    WORD_BOUNDARY = auto()
    NO_WORD_BOUNDARY = auto()


@dataclass(frozen=True)
class Characters:
    """One character of a set."""

    runs: Runs


@dataclass(frozen=True)
class AnyByte:
    """One byte, whatever it is."""


@dataclass(frozen=True)
class Assertion:
    """Nothing, at a certain place."""

    at: At


@dataclass(frozen=True)
class Sequence:
    """One after the other; empty for the empty text."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Choice:
    """Any of several."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Repetition:
    """``low`` to ``high`` times; None is without limit."""

    item: Expression
    low: int
    high: int | None


Expression: TypeAlias = Characters | AnyByte | Assertion | Sequence | Choice | Repetition
