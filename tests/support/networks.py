"""Flow modules with the shapes of well-known networks; nothing in them can run."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.flow_text import FlowKernel, module


@dataclass(frozen=True)
class Tensor:
    name: str
    type: str


def f32(*dims: int) -> str:
    return f"tensor<{'x'.join(map(str, dims))}xf32>"


@dataclass
class Network:
    """Builds ``@main`` dispatch by dispatch; equal signatures share a kernel."""

    kernel_texts: dict[str, FlowKernel] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def dispatch(self, operands: list[Tensor], type_: str, *, may_alias: bool = False) -> Tensor:
        types = [t.type for t in operands]
        pairs = tuple(n for i, t in enumerate(types) if may_alias and t == type_ for n in (0, i))
        kernel_text = FlowKernel(", ".join(types), (type_,), may_alias=pairs)
        name = next((n for n, e in self.kernel_texts.items() if e == kernel_text), f"e{len(self.kernel_texts)}")
        self.kernel_texts[name] = kernel_text
        result = Tensor(f"%v{len(self.lines)}", type_)
        arguments = ", ".join(t.name for t in operands)
        self.lines.append(f"    {result.name} = func.call @{name}({arguments}) : ({', '.join(types)}) -> {type_}")
        return result

    def text(self, source: Tensor, result: Tensor) -> str:
        body = "\n".join(self.lines)
        main = f"  func.func @main({source.name}: {source.type}) -> {result.type} {{\n{body}\n"
        return module(self.kernel_texts, f"{main}    return {result.name} : {result.type}\n  }}")


def mobilenet_v2() -> str:
    """MobileNetV2 at 224x224: (expansion, channels, repeats, stride) as published."""
    net = Network()
    source = Tensor("%x", f32(1, 3, 224, 224))
    h = net.dispatch([source], f32(112 * 112, 32))
    h = net.dispatch([h], f32(112 * 112, 32))
    h = net.dispatch([h], f32(112 * 112, 16))
    side, channels = 112, 16
    for expansion, out, repeats, stride in (
        (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(repeats):
            wide = net.dispatch([h], f32(side * side, channels * expansion))
            side //= stride if i == 0 else 1
            deep = net.dispatch([wide], f32(side * side, channels * expansion))
            if i:
                h = net.dispatch([deep, h], f32(side * side, out), may_alias=True)
            else:
                h = net.dispatch([deep], f32(side * side, out))
            channels = out
    h = net.dispatch([h], f32(49, 1280))
    h = net.dispatch([h], f32(1280))
    return net.text(source, net.dispatch([h], f32(1000)))


def resnet(blocks: int = 16) -> str:
    """Bottlenecks with a residual each, channels doubling every four."""
    net = Network()
    source = h = Tensor("%x", f32(56 * 56, 64))
    pixels, channels = 56 * 56, 64
    for i in range(blocks):
        if i % 4 == 0 and i:
            pixels, channels = pixels // 4, channels * 2
        a = net.dispatch([h], f32(pixels, channels))
        b = net.dispatch([a], f32(pixels, channels))
        shortcut = h if h.type == f32(pixels, channels * 4) else net.dispatch([h], f32(pixels, channels * 4))
        h = net.dispatch([b, shortcut], f32(pixels, channels * 4))
    return net.text(source, h)


def inception(modules: int = 9) -> str:
    """Four branches and a concatenation, over and over."""
    net = Network()
    source = h = Tensor("%x", f32(784, 192))
    for i in range(modules):
        branches = [net.dispatch([h], f32(784, 64 + i))]
        for reduced, out in ((96 + 3 * i, 128), (16 + i, 32), (192, 32 + i)):
            branches.append(net.dispatch([net.dispatch([h], f32(784, reduced))], f32(784, out)))
        h = net.dispatch(branches, f32(784, 256 + 2 * i))
    return net.text(source, h)


def unet(depth: int = 5) -> str:
    """Skip connections that live across everything below them."""
    net = Network()
    source = h = Tensor("%x", f32(256 * 256, 3))
    pixels, channels, skips = 256 * 256, 16, []
    for _ in range(depth):
        h = net.dispatch([h], f32(pixels, channels))
        skips.append(h)
        pixels, channels = pixels // 4, channels * 2
        h = net.dispatch([h], f32(pixels, channels))
    for skip in reversed(skips):
        pixels, channels = pixels * 4, channels // 2
        h = net.dispatch([h], f32(pixels, channels))
        h = net.dispatch([h, skip], f32(pixels, channels))
    return net.text(source, h)


def chain(length: int) -> str:
    net = Network()
    source = h = Tensor("%x", f32(64, 64))
    for i in range(length):
        h = net.dispatch([h], f32(64, 64 + i % 7))
    return net.text(source, h)
