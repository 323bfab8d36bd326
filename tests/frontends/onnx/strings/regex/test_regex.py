"""Regular expressions as automata, compared with Python's ``re`` where both have the same syntax."""

from __future__ import annotations

import random
import re

import pytest

from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.strings.regex import charset
from rillet.frontends.onnx.strings.regex.automaton import build, utf8_ranges
from rillet.frontends.onnx.strings.regex.parser import parse

# Where the syntaxes differ, Python's pattern is given too.
PATTERNS: list[tuple[str, str | None]] = [
    (r"www\.[\w.-]+\.\bcom\b", None),
    (r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", None),
    (r"a*b+c?", None),
    (r"(ab|a)(bc|c)?", None),
    (r"[^a-c]+", None),
    (r"\d{3}-\d{2,4}", None),
    (r"(?s).*x.*", None),
    (r".*", None),
    (r"(?m)^a$\n^b$", None),
    (r"\bfoo\b.*\Bar", None),
    (r"[[:alpha:]]+[[:^digit:]]", r"[A-Za-z]+[^0-9]"),
    (r"日本[語人]?|[α-ω]+", None),
    (r"", None),
    (r"a||b", None),
    (r"(?:a{2}){2,}b{,2}", r"(?:a{2}){2,}b\{,2\}"),
    (r"\x41\x{42}\103", r"ABC"),
    (r"[]a\]-]+|\Qa.b\E+", r"[]a\]-]+|a\.b+"),
    (r"(a*)*(a|b)*abb", None),
    (r"\Aa+b*?\z", r"a+b*"),
    (r"(?P<n>a)(?<m>b)(?i)B", r"(?P<n>a)(?P<m>b)[Bb]"),
]
SEEDS = ["", "www.a.com", "x@gmail.com", "abb", "123-4567", "a\nb", "foo bar", "日本語", "aaaab", "ABC", "αω", "a.b"]


@pytest.mark.parametrize(("pattern", "python"), PATTERNS)
def test_agrees_with_python(pattern: str, python: str | None) -> None:
    generator = random.Random(pattern)
    automaton = build(parse(pattern))
    expected = re.compile(python if python is not None else pattern, re.ASCII)
    for _ in range(400):
        text = list(generator.choice(SEEDS))
        for _ in range(generator.randrange(4)):
            if text and generator.random() < 0.5:
                text.pop(generator.randrange(len(text)))
            else:
                text.insert(generator.randrange(len(text) + 1), generator.choice("abcfor x.-@1A日語ω\n\t{},]"))
        joined = "".join(text)
        assert automaton.matches(joined.encode()) == (expected.fullmatch(joined) is not None), joined


def test_case_folding_and_categories() -> None:
    folded = build(parse("(?i)kΣß"))
    for text in ("kσß", "Kςẞ", "\u212aΣß"):  # the sign of kelvin is a k
        assert folded.matches(text.encode())
    assert not folded.matches("kσss".encode())
    letters = build(parse(r"\p{Lu}\pL*\P{L}"))
    assert letters.matches("Éa日1".encode())
    assert not letters.matches("éa1".encode())


def test_a_byte_of_a_character() -> None:
    assert build(parse(r"\C\C")).matches("é".encode())


def test_automata_are_minimal() -> None:
    assert build(parse("(a|b)*abb")).steps.shape == (5, 3)  # four states, and one that never accepts
    assert build(parse("(a*)*|a+")).steps.shape == (2, 2)


def test_groups_nest() -> None:
    automaton = build(parse("(" * 100 + "a" + "b)?" * 100))
    assert automaton.matches(b"a" + b"b" * 100)
    assert automaton.matches(b"bb")
    assert not automaton.matches(b"abb")


def test_utf8_ranges_cover_what_they_should() -> None:
    for first, last in ((0, charset.LAST), (0x7E, 0x802), (0xD000, 0xE100), (0xFFF0, 0x12345)):
        ranges = list(utf8_ranges(first, last))

        def holds(code_point: int, ranges: list = ranges) -> bool:
            encoded = chr(code_point).encode()
            return any(
                len(r) == len(encoded) and all(low <= c <= high for c, (low, high) in zip(encoded, r, strict=True))
                for r in ranges
            )

        edges = {first, last, first - 1, last + 1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000}
        for code_point in edges & set(range(charset.LAST + 1)):
            assert holds(code_point) == (first <= code_point <= last), hex(code_point)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", r"a \) is missing"),
        ("a)", r"a \) without its \("),
        ("[a", "the ] of a class is missing"),
        ("a**", "a repetition of a repetition"),
        ("*a", "a repetition of nothing"),
        ("a{3,2}", "reversed or has more than 1000"),
        ("a{1001}", "reversed or has more than 1000"),
        ("[b-a]", "a reversed range"),
        ("[[:foo:]]", "an unknown class"),
        ("a\\", "is missing"),
        (r"\x{110000}", "without its number"),
        (r"\p", "a Unicode class without a name"),
        ("(?", "a group of an unknown kind"),
    ],
)
def test_syntax_errors(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidNode, match=reason):
        parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "a lookahead"),
        ("(?<!a)b", "a negative lookbehind"),
        (r"(a)\1", "a backreference"),
        ("(?P=n)", "a backreference"),
        ("a*+", "a possessive repetition"),
        ("(?>a)", "an atomic group"),
        (r"\p{Greek}", "the Unicode class 'Greek'"),
        ("(?x)a", "the flag 'x'"),
        (r"\Z", "the escape"),
        ("(?:" * 300, "nested deeper"),
        ("(a{1000}){1000}", "too large"),
        ("(a|b)*a(a|b){20}", "more than 10,000 states"),
    ],
)
def test_what_is_not_regular_or_too_large(pattern: str, reason: str) -> None:
    with pytest.raises(UnsupportedFeature, match=reason):
        build(parse(pattern))
