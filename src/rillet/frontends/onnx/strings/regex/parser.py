"""Reads patterns in RE2's syntax (https://github.com/google/re2/wiki/Syntax).

Greediness and capturing groups make no difference to whether a text matches as a whole, so both are dropped. Syntax
that is not regular, or not in RE2, is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.strings.regex import charset
from rillet.frontends.onnx.strings.regex.charset import Runs
from rillet.frontends.onnx.strings.regex.syntax import (
    AnyByte,
    Assertion,
    At,
    Characters,
    Choice,
    Expression,
    Repetition,
    Sequence,
)

_MAX_COUNT = 1000  # of a counted repetition, as in RE2
_MAX_DEPTH = 100  # of nested groups
_CONTROL = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PLACES = {"A": At.TEXT_BEGIN, "z": At.TEXT_END, "b": At.WORD_BOUNDARY, "B": At.NO_WORD_BOUNDARY}
_NOT_REGULAR = {
    "(?=": "a lookahead",
    "(?!": "a negative lookahead",
    "(?<=": "a lookbehind",
    "(?<!": "a negative lookbehind",
    "(?>": "an atomic group",
    "(?(": "a conditional group",
    "(?#": "a comment",
    "(?P=": "a backreference",
    "(?P>": "a recursive group",
    "(?R": "a recursive group",
    "(?&": "a recursive group",
    "(?|": "a branch reset",
}
_COUNTED = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_GROUP_NAME = re.compile(r"\(\?P?<(\w+)>")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


@dataclass(frozen=True)
class _Flags:
    fold: bool = False  # i
    lines: bool = False  # m: ^ and $ at line ends too
    dot_all: bool = False  # s: . is also \n


def parse(pattern: str) -> Expression:
    """The parsed pattern. Raises InvalidNode for a syntax error, UnsupportedFeature for syntax that RE2 lacks."""
    return _Parser(pattern).run()


class _Parser:
    def __init__(self, pattern: str):
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def run(self) -> Expression:
        result = self._choice(_Flags())
        if self._at < len(self._pattern):
            raise self._error("a ) without its (")
        return result

    # --- reading ---

    def _error(self, what: str) -> InvalidNode:
        return InvalidNode(f"pattern {self._pattern!r}: {what} at position {self._at}")

    def _unsupported(self, what: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"pattern {self._pattern!r} has {what} at position {self._at}", "RE2's syntax has no such construct"
        )

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if not self._peek(text):
            return False
        self._at += len(text)
        return True

    def _next(self, what: str) -> str:
        if self._at >= len(self._pattern):
            raise self._error(f"{what} is missing")
        self._at += 1
        return self._pattern[self._at - 1]

    # --- structure ---

    def _choice(self, flags: _Flags) -> Expression:
        """Alternatives up to a ) or the end. Flags set inside hold up to there."""
        items: list[Expression] = []
        sequence: list[Expression] = []
        while self._at < len(self._pattern) and not self._peek(")"):
            if self._take("|"):
                items.append(Sequence(tuple(sequence)))
                sequence = []
                continue
            changed = self._flags(flags)
            if changed is not None:
                flags = changed
                continue
            sequence.extend(self._repeated(flags))
        items.append(Sequence(tuple(sequence)))
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _flags(self, flags: _Flags) -> _Flags | None:
        """The flags after ``(?flags)``, or None where there is no such group."""
        match = _FLAGS.match(self._pattern, self._at)
        if match is None or match[3] != ")":
            return None
        return self._with_flags(flags, match)

    def _with_flags(self, flags: _Flags, match: re.Match[str]) -> _Flags:
        names = {"i": "fold", "m": "lines", "s": "dot_all"}
        for letters, value in ((match[1], True), (match[2] or "", False)):
            for letter in letters:
                if letter not in (*names, "U"):
                    raise self._unsupported(f"the flag '{letter}'")
                if letter in names:  # U only swaps greediness
                    flags = replace(flags, **{names[letter]: value})
        self._at = match.end()
        return flags

    def _repeated(self, flags: _Flags) -> list[Expression]:
        items = self._atom(flags)
        times = self._times()
        while times is not None:
            if not items:
                raise self._error("a repetition of nothing")
            items[-1] = Repetition(items[-1], *times)
            start = self._at
            self._take("?")  # as few as possible: the same texts
            if self._peek("+"):
                raise self._unsupported("a possessive repetition")
            times = self._times()
            if times is not None:
                raise InvalidNode(f"pattern {self._pattern!r}: a repetition of a repetition at position {start}")
        return items

    def _times(self) -> tuple[int, int | None] | None:
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return times
        match = _COUNTED.match(self._pattern, self._at)
        if match is None:
            return None
        low = int(match[1])
        high = low if not match[2] else int(match[3]) if match[3] else None
        if low > _MAX_COUNT or (high is not None and (high > _MAX_COUNT or high < low)):
            raise self._error(f"a repetition '{match[0]}' that is reversed or has more than {_MAX_COUNT} times")
        self._at = match.end()
        return low, high

    def _atom(self, flags: _Flags) -> list[Expression]:
        """The next item; several for a quoted text."""
        if self._peek("("):
            return [self._group(flags)]
        if self._peek("["):
            return [self._class(flags)]
        if self._take("."):
            return [Characters(charset.ANY if flags.dot_all else charset.complement(((10, 10),)))]
        if self._take("^"):
            return [Assertion(At.LINE_BEGIN if flags.lines else At.TEXT_BEGIN)]
        if self._take("$"):
            return [Assertion(At.LINE_END if flags.lines else At.TEXT_END)]
        if self._peek("\\"):
            return self._escaped(flags)
        if self._pattern[self._at] in "*+?":
            raise self._error("a repetition of nothing")
        return [self._character(ord(self._next("a character")), flags)]

    def _group(self, flags: _Flags) -> Expression:
        for opening in sorted(_NOT_REGULAR, key=len, reverse=True):
            if self._peek(opening):
                raise self._unsupported(f"{_NOT_REGULAR[opening]} '{opening}'")
        if self._depth == _MAX_DEPTH:
            raise UnsupportedFeature(
                f"pattern {self._pattern!r} has groups nested deeper than {_MAX_DEPTH}", "simplify the pattern"
            )
        scoped = _FLAGS.match(self._pattern, self._at)
        named = _GROUP_NAME.match(self._pattern, self._at)
        if scoped is not None:
            flags = self._with_flags(flags, scoped)
        elif named is not None:
            self._at = named.end()
        elif self._peek("(?"):
            raise self._error("a group of an unknown kind")
        else:
            self._at += 1
        self._depth += 1
        inner = self._choice(flags)
        self._depth -= 1
        if not self._take(")"):
            raise self._error("a ) is missing")
        return inner

    # --- characters ---

    def _character(self, code_point: int, flags: _Flags) -> Expression:
        runs: Runs = ((code_point, code_point),)
        return Characters(charset.fold(runs) if flags.fold else runs)

    def _escaped(self, flags: _Flags) -> list[Expression]:
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._pattern)
            return [self._character(ord(c), flags) for c in quoted]
        if letter in _PLACES:
            self._at += 2
            return [Assertion(_PLACES[letter])]
        if letter == "C":
            self._at += 2
            return [AnyByte()]
        named = self._named(flags)
        return [Characters(named) if named is not None else self._character(self._escape(), flags)]

    def _named(self, flags: _Flags) -> Runs | None:
        """A class such as ``\\d`` or ``\\p{Lu}``, or None where another escape is."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter and letter in "dDsSwW":
            self._at += 2
            runs = charset.PERL[letter.lower()]
            return charset.complement(runs) if letter.isupper() else runs
        if letter not in ("p", "P"):
            return None
        match = re.compile(r"\\[pP](?:\{(\^?)(\w+)\}|([A-Z]))").match(self._pattern, self._at)
        if match is None:
            raise self._error("a Unicode class without a name")
        name = match[2] or match[3]
        known = charset.category(name)
        if known is None:
            raise UnsupportedFeature(
                f"pattern {self._pattern!r} has the Unicode class '{name}'",
                "only general categories such as L or Lu are",
            )
        self._at = match.end()
        runs = charset.fold(known) if flags.fold else known
        return charset.complement(runs) if (letter == "P") != bool(match[1]) else runs

    def _escape(self) -> int:
        """The code point of an escape that stands for one."""
        self._at += 1
        letter = self._next("what \\ escapes")
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "x":
            match = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self._pattern, self._at)
            code_point = int(match[1] or match[2], 16) if match else charset.LAST + 1
            if match is None or code_point > charset.LAST:
                raise self._error("a \\x without its number")
            self._at = match.end()
            return code_point
        octal = re.compile(r"[0-7]{3}|0[0-7]{0,2}").match(self._pattern, self._at - 1)
        if octal is not None:
            self._at = octal.end()
            return int(octal[0], 8)
        if letter.isdigit() or letter in "kg":
            raise self._unsupported(f"a backreference '\\{letter}'")
        if letter.isascii() and letter.isalpha():
            raise self._unsupported(f"the escape '\\{letter}'")
        return ord(letter)

    def _class(self, flags: _Flags) -> Expression:
        """``[...]``"""
        self._at += 1
        negated = self._take("^")
        runs: list[tuple[int, int]] = []
        first = True
        while first or not self._peek("]"):
            first = False
            named = self._posix() or self._named(flags)
            if named is not None:
                runs.extend(named)
                continue
            low = self._class_character()
            high = low
            if self._peek("-") and not self._peek("-]"):
                self._at += 1
                high = self._class_character()
                if high < low:
                    raise self._error("a reversed range in a class")
            runs.append((low, high))
        self._at += 1
        result = charset.union(runs)
        result = charset.fold(result) if flags.fold else result
        return Characters(charset.complement(result) if negated else result)

    def _posix(self) -> Runs | None:
        match = re.compile(r"\[:(\^?)(\w+):\]").match(self._pattern, self._at)
        if match is None:
            return None
        if match[2] not in charset.POSIX:
            raise self._error(f"an unknown class '{match[0]}'")
        self._at = match.end()
        runs = charset.POSIX[match[2]]
        return charset.complement(runs) if match[1] else runs

    def _class_character(self) -> int:
        if self._peek("\\"):
            return self._escape()
        return ord(self._next("the ] of a class"))
