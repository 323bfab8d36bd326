"""Random host programs, static and dynamic, and the C kernels that they call.

Every tensor is a vector of n, 2n or 3n integers. Dispatches overwrite arguments, update in place and are reordered;
views, repeated results, branches and loops are mixed in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from rillet.module import CompiledLibrary
from tests.support.c_kernels import library
from tests.support.flow_text import FlowKernel, module

KERNELS = """
#define X(n) BINDING(int32_t, n)
KERNEL(add) { for (long i = 0; i < C(0); i++) X(2)[i] = X(0)[i] + 3 * X(1)[i]; return 0; }
KERNEL(step) { for (long i = 0; i < C(0); i++) X(1)[i] = 5 * X(0)[i] + 1; return 0; }
KERNEL(twin) { for (long i = 0; i < C(0); i++) { X(1)[i] = X(0)[i] + 7; X(2)[i] = X(0)[i] - 2; } return 0; }
KERNEL(fold) { for (long i = 0; i < C(0); i++) X(1)[i] = X(0)[i] ^ X(0)[C(0) + i]; return 0; }
KERNEL(put) {
  if (X(0) != X(2)) return 3;
  for (long i = 0; i < C(0); i++) X(2)[i] += X(1)[i] << 1;
  return 0;
}
"""


SIGNATURES = {"add": (3, 1), "step": (2, 1), "twin": (3, 1), "fold": (2, 1), "put": (3, 1)}


@cache
def kernels() -> CompiledLibrary:
    return library(KERNELS, list(SIGNATURES), SIGNATURES)


@dataclass(frozen=True)
class Value:
    name: str
    factor: int
    array: np.ndarray


@dataclass
class Generator:
    """Writes a program and computes it at the same time, for ``n`` elements a unit."""

    random: random.Random
    n: int
    dynamic: bool
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def type(self, factor: int) -> str:
        return "tensor<?xi32>" if self.dynamic else f"tensor<{self.n * factor}xi32>"

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def dispatch(self, callee: str, operands: list[Value], factor: int, arrays: list[np.ndarray]) -> list[Value]:
        name = self.name()
        names = ", ".join([*(v.name for v in operands), f"%n{factor}"])
        types = ", ".join([*(self.type(v.factor) for v in operands), "index"])
        results = ", ".join([self.type(factor)] * len(arrays))
        suffix = f":{len(arrays)}" if len(arrays) > 1 else ""
        self.lines.append(f"{name}{suffix} = func.call @{callee}_{factor}({names}) : ({types}) -> ({results})")
        if len(arrays) == 1:
            return [Value(name, factor, arrays[0])]
        return [Value(f"{name}#{i}", factor, array) for i, array in enumerate(arrays)]

    def step(self, values: list[Value]) -> list[Value]:
        """One random operation on recent values."""
        pick = lambda: values[-1 - min(int(self.random.expovariate(0.4)), len(values) - 1)]  # noqa: E731
        a = pick()
        alike = [v for v in values if v.factor == a.factor]
        b = self.random.choice(alike[-4:])
        kind = self.random.choice(["add", "add", "step", "twin", "fold", "put", "slice", "if", "for"])
        with np.errstate(over="ignore"):
            if kind == "add":
                return self.dispatch("add", [a, b], a.factor, [a.array + 3 * b.array])
            if kind == "twin":
                return self.dispatch("twin", [a], a.factor, [a.array + 7, a.array - 2])
            if kind == "put":
                return self.dispatch("put", [a, b], a.factor, [a.array + (b.array << 1)])
            if kind == "fold" and a.factor == 2:
                return self.dispatch("fold", [a], 1, [a.array[: self.n] ^ a.array[self.n :]])
            if kind == "slice" and a.factor > 1:
                return [self.slice(a)]
            if kind == "if":
                return [self.branch(a, b)]
            if kind == "for":
                return [self.loop(a, b)]
            return self.dispatch("step", [a], a.factor, [5 * a.array + 1])

    def slice(self, a: Value) -> Value:
        name, start = self.name(), self.random.randrange(a.factor)
        dims = ", %n1" if self.dynamic else ""
        offset = f"%n{start}" if start else "%c0"
        segments = f"{{operandSegmentSizes = array<i32: 1, 1, {int(self.dynamic)}>}}"
        types = f"({self.type(a.factor)}, index{', index' if self.dynamic else ''}) -> {self.type(1)}"
        self.lines.append(f'{name} = "flow.slice"({a.name}, {offset}{dims}) {segments} : {types}')
        return Value(name, 1, a.array[start * self.n : (start + 1) * self.n])

    def branch(self, a: Value, b: Value) -> Value:
        """One side computes, the other passes a value on as it is."""
        name, taken = self.name(), self.random.random() < 0.5
        self.lines.append(f"{name} = scf.if %{'true' if taken else 'false'} -> {self.type(a.factor)} {{")
        [inner] = self.dispatch("put", [a, b], a.factor, [a.array + (b.array << 1)])
        self.lines.append(f"scf.yield {inner.name} : {self.type(a.factor)}\n}} else {{")
        self.lines.append(f"scf.yield {b.name} : {self.type(a.factor)}\n}}")
        return Value(name, a.factor, inner.array if taken else b.array)

    def loop(self, a: Value, b: Value) -> Value:
        """Two carried values: one updated in place, one computed; or the next to be updated comes from outside."""
        name, x, y, type_ = self.name(), self.name(), self.name(), self.type(a.factor)
        self.lines.append(
            f"{name}:2 = scf.for %i{name[1:]} = %c0 to %c3 step %c1 iter_args({x} = {a.name}, {y} = {b.name})"
            f" -> ({type_}, {type_}) {{"
        )
        kind = self.random.choice(["keep", "swap", "outside"])
        source = self.random.randrange(3)
        carried = [Value(x, a.factor, a.array), Value(y, a.factor, b.array)]
        [updated] = self.dispatch("put", carried, a.factor, [a.array])
        [other] = self.dispatch("step", [[*carried, updated][source]], a.factor, [a.array])
        yields = {"keep": (updated, other), "swap": (other, updated), "outside": (b, other)}[kind]
        self.lines.append(f"scf.yield {yields[0].name}, {yields[1].name} : {type_}, {type_}\n}}")
        first, second = a.array, b.array
        for _ in range(3):
            put = first + (second << 1)
            stepped = 5 * (first, second, put)[source] + 1
            first, second = {"keep": (put, stepped), "swap": (stepped, put), "outside": (b.array, stepped)}[kind]
        result = self.random.randrange(2)
        return Value(f"{name}#{result}", a.factor, (first, second)[result])


def kernel_texts(generator: Generator) -> dict[str, FlowKernel]:
    found = {}
    for factor in (1, 2, 3):
        t, one = generator.type(factor), generator.type(1)
        dims = lambda position, count=1: ((position,),) * count if generator.dynamic else ()  # noqa: E731
        found[f"add_{factor}"] = FlowKernel(f"{t}, {t}, index", (t,), dims(2), may_alias=(0, 0, 0, 1))
        found[f"step_{factor}"] = FlowKernel(f"{t}, index", (t,), dims(1), may_alias=(0, 0))
        found[f"twin_{factor}"] = FlowKernel(f"{t}, index", (t, t), dims(1, 2), may_alias=(1, 0))
        found[f"put_{factor}"] = FlowKernel(f"{t}, {t}, index", (t,), dims(2), tied=(0, 0))
        if factor == 1:
            found["fold_1"] = FlowKernel(f"{generator.type(2)}, index", (one,), dims(1))
    return found


@dataclass(frozen=True)
class RandomProgram:
    """The text of a flow program, what goes in, and what must come out."""

    text: str
    inputs: list[np.ndarray]
    results: list[np.ndarray]


def random_program(seed: int, dynamic: bool) -> RandomProgram:
    choose = random.Random(seed)
    g = Generator(choose, n=choose.choice([1, 5, 16, 40]), dynamic=dynamic)
    rng = np.random.default_rng(seed)
    inputs = [
        Value(f"%in{f}", f, rng.integers(-(1 << 31), 1 << 31, g.n * f, dtype=np.int64).astype(np.int32))
        for f in (1, 2, 3)
    ]
    values = list(inputs)
    for _ in range(choose.randrange(3, 40)):
        values += g.step(values)
    results = [choose.choice(values[-8:]) for _ in range(choose.randrange(1, 5))]
    arguments = ", ".join(f'{v.name}: {g.type(v.factor)} {{rillet.dtype = "int32"}}' for v in inputs)
    head = ["%true = arith.constant true", "%false = arith.constant false"]
    head += [f"%c{i} = arith.constant {i} : index" for i in (0, 1, 3)]
    n1 = f"tensor.dim %in1, %c0 : {g.type(1)}" if dynamic else f"arith.constant {g.n} : index"
    head += [f"%n1 = {n1}", "%n2 = arith.addi %n1, %n1 : index", "%n3 = arith.addi %n2, %n1 : index"]
    types = ", ".join(g.type(v.factor) for v in results)
    body = "\n".join([*head, *g.lines, f"return {', '.join(v.name for v in results)} : {types}"])
    text = module(kernel_texts(g), f"func.func @main({arguments}) -> ({types}) {{\n{body}\n}}")
    for kernel in SIGNATURES:  # one kernel serves all sizes
        for factor in (1, 2, 3):
            text = text.replace(f"@kernels::@{kernel}_{factor}", f"@kernels::@{kernel}")
    names = "\n".join(f"    module @{kernel} attributes {{flow.kernel}} {{}}" for kernel in SIGNATURES)
    text = text.replace(text[text.index("    module @add_1") : text.index("\n  }\n")], names)
    return RandomProgram(text, [v.array for v in inputs], [v.array for v in results])
