"""The deepest way through a program's calls."""

from __future__ import annotations

import pytest

from rillet.codegen.cpu.object_code import call_stack
from rillet.errors import CompileError
from rillet.export import objects
from rillet.targets import get

_PROGRAM = """
void use(char* memory);
extern int many;

static __attribute__((noinline)) void small(void) { char m[64]; use(m); use(m); }
__attribute__((noinline)) void large(void) { char m[1024]; use(m); use(m); }
__attribute__((noinline)) void unused(void) { char m[4096]; use(m); use(m); }

void calls_small(void) { char m[128]; use(m); small(); use(m); }
void calls_either(void) { char m[128]; use(m); if (many) small(); else large(); use(m); }
void calls_both_in_turn(void) { char m[128]; use(m); small(); large(); use(m); }
void jumps_to_large(void) { large(); }
__attribute__((noinline)) void again(int n) { char m[256]; use(m); if (n) again(n - 1); use(m); }

static void (*const TABLE[])(void) = {small, large};
void calls_a_pointer(int n) { char m[128]; use(m); TABLE[n](); use(m); }
void jumps_to_a_pointer(int n) { TABLE[n](); }
void calls_what_it_is_given(void (*f)(void)) { char m[128]; use(m); f(); use(m); }
"""


@pytest.fixture(scope="module", params=["cortex-m4", "riscv32imf"])
def depth(request: pytest.FixtureRequest):
    """A function that gives the depth of an entry of the program."""
    target = get(request.param)

    def measure(entry: str) -> int:
        functions = objects.linked(_PROGRAM, {}, (), objects.archive([]), entry, target).functions
        assert functions is not None
        return call_stack.deepest(functions, entry)

    return measure


@pytest.mark.parametrize(
    ("entry", "least"),
    [
        ("calls_small", 128 + 64),
        ("calls_either", 128 + 1024),
        ("calls_both_in_turn", 128 + 1024),
        ("jumps_to_large", 1024),
        ("again", 256),
        ("calls_a_pointer", 128 + 1024),
        ("jumps_to_a_pointer", 1024),
    ],
)
def test_the_deepest_way_counts(depth, entry: str, least: int) -> None:
    assert least <= depth(entry) <= least + 96  # saved registers and alignment


def test_a_pointer_reaches_what_has_its_address_taken_only(depth) -> None:
    assert 128 <= depth("calls_what_it_is_given") <= 128 + 64  # nothing in the program takes an address then


def test_other_architectures_are_refused() -> None:
    functions = objects.linked(_PROGRAM, {}, (), objects.archive([]), "large", get("x86-64-v3")).functions
    assert functions is not None
    with pytest.raises(CompileError, match="for this architecture are not known"):
        call_stack.deepest(functions, "large")
