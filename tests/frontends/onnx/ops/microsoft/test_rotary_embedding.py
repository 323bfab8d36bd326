"""RotaryEmbedding of ONNX Runtime against ONNX Runtime and, rotated as complex numbers, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import rillet
from rillet.errors import CompileError, RunError, UnsupportedError
from tests.support.contrib_models import assert_close, contrib_model, run_both

_RANDOM = np.random.default_rng(8)
ANGLES = _RANDOM.uniform(-3, 3, (20, 4)).astype(np.float32)
CACHES = {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}


def f32(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def turned(x: np.ndarray, positions: np.ndarray, interleaved: bool) -> np.ndarray:
    """``x`` [batch, sequence, heads, width]: pairs of features are complex numbers, multiplied by exp(i angle)."""
    half = ANGLES.shape[1]
    front = x[..., : 2 * half].astype(np.float64)
    pairs = (
        front.reshape(*x.shape[:3], half, 2) if interleaved else np.stack([front[..., :half], front[..., half:]], -1)
    )
    product = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * ANGLES[positions][:, :, None])
    parts = np.stack([product.real, product.imag], -1 if interleaved else -2)
    return np.concatenate([parts.reshape(front.shape), x[..., 2 * half :]], -1)


PAIRS = _RANDOM.integers(0, 20, (2, 5))
FROM_3 = np.broadcast_to(np.arange(3, 8), (2, 5))
PARTIAL = {"num_heads": 3, "rotary_embedding_dim": 8}
# Name → input, positions, those of each element, declared shapes, attributes.
CASES: dict[str, tuple] = {
    "neighbours": (f32(2, 5, 24), PAIRS, PAIRS, {"x": ["B", "S", 24], "positions": ["B", "S"]}, {"interleaved": 1}),
    "from one position": (f32(2, 5, 24), np.array([3]), FROM_3, {"x": ["B", "S", 24]}, {"num_heads": 3}),
    "heads in front": (f32(2, 3, 5, 8), PAIRS, PAIRS, {"x": ["B", 3, "S", 8]}, {}),
    "a part, neighbours": (f32(2, 3, 5, 12), PAIRS, PAIRS, {}, {**PARTIAL, "interleaved": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime_and_numpy(name: str) -> None:
    x, positions, each, shapes, attributes = CASES[name]
    inputs = {"x": x, "positions": positions, **CACHES}
    proto = contrib_model("RotaryEmbedding", inputs, ("y",), shapes, ("cos", "sin"), **attributes)
    ((actual, expected),) = run_both(proto, inputs)
    assert_close(actual, expected, 1e-6)
    heads = x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(2, 5, 3, -1)
    reference = turned(heads, each, bool(attributes.get("interleaved")))
    reference = reference.swapaxes(1, 2) if x.ndim == 4 else reference
    np.testing.assert_allclose(actual["y"], reference.reshape(x.shape), rtol=1e-5, atol=1e-5)


def test_half() -> None:
    inputs = {"x": f32(2, 5, 24).astype(np.float16), "positions": PAIRS}
    caches = {n: a.astype(np.float16) for n, a in CACHES.items()}
    proto = contrib_model("RotaryEmbedding", {**inputs, **caches}, known=("cos", "sin"))
    actual = rillet.compile(proto, threads=1).run(inputs)["y"]
    assert actual.dtype == np.float16
    expected = turned(inputs["x"].reshape(2, 5, 3, 8), PAIRS, False).reshape(2, 5, 24)
    np.testing.assert_allclose(actual, expected, rtol=4e-3, atol=4e-3)


def test_position_outside() -> None:
    inputs = {"x": f32(2, 5, 24), "positions": PAIRS}
    module = rillet.compile(contrib_model("RotaryEmbedding", {**inputs, **CACHES}, known=("cos", "sin")), threads=1)
    with pytest.raises(RunError, match="out of bounds"):
        module.run({**inputs, "positions": np.full((2, 5), 20)})


def test_what_it_cannot_be() -> None:
    def refused(error: type, message: str, x: np.ndarray, positions: np.ndarray = PAIRS, **attributes: object) -> None:
        with pytest.raises(error, match=rf"'n'.*{message}"):
            rillet.compile(contrib_model("RotaryEmbedding", {"x": x, "p": positions, **CACHES}, **attributes))

    refused(UnsupportedError, "is_packed_batching; export", f32(2, 5, 24), is_packed_batching=1)
    refused(UnsupportedError, "a scale other than 1; scale the caches", f32(2, 5, 24), scale=2.0)
    refused(CompileError, "rotary_embedding_dim needs num_heads", f32(2, 5, 24), rotary_embedding_dim=8)
    refused(CompileError, "the input has rank 2", f32(5, 24))
    unknown = contrib_model(
        "RotaryEmbedding",
        {"x": f32(2, 5, 24), "positions": PAIRS, **CACHES},
        shapes={"cos": ["P", "H"], "sin": ["P", "H"]},
    )
    with pytest.raises(UnsupportedError, match=r"'n'.*known in each call only; give the features' dimensions sizes"):
        rillet.compile(unknown)
    refused(CompileError, r"'cos_cache' is \[20, 4\], not \[\?, 3\]", f32(2, 3, 5, 6))
    refused(CompileError, "positions are neither batch x sequence nor one number", f32(2, 5, 24), np.arange(5))
