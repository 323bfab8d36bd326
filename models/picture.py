"""Drawn pictures that a network trained on ImageNet recognizes; plain numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIZE = 224


def _grid() -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    return x, y


def _disc(
    image: np.ndarray, cx: float, cy: float, radius: float, colour: tuple[float, float, float], shade: float = 0.0
) -> None:
    """Paint a soft-edged disc; `shade` darkens it away from a light at the upper left, as on a ball."""
    x, y = _grid()
    distance = np.hypot(x - cx, y - cy)
    cover = np.clip(radius - distance + 0.5, 0, 1)[..., None]
    light = 1 - shade * np.clip(np.hypot(x - cx + radius / 3, y - cy + radius / 3) / (1.4 * radius), 0, 1)
    image[:] = image * (1 - cover) + cover * np.array(colour, np.float32) * light[..., None]


def _box(image: np.ndarray, x0: float, y0: float, x1: float, y1: float, colour: tuple[float, float, float]) -> None:
    x, y = _grid()
    cover = np.clip(np.minimum.reduce([x - x0, x1 - x, y - y0, y1 - y]) + 0.5, 0, 1)[..., None]
    image[:] = image * (1 - cover) + cover * np.array(colour, np.float32)


def traffic_light() -> np.ndarray:
    """A traffic light that shows red, on a pole in front of the sky."""
    _, y = _grid()
    t = (y / SIZE)[..., None]
    image = (1 - t) * np.array([90, 140, 210], np.float32) + t * np.array([190, 210, 235], np.float32)
    _box(image, 108, 114, 116, 224, (70, 72, 75))
    _box(image, 96, 36, 128, 124, (32, 34, 32))
    for cy, colour in ((53.6, (250, 50, 35)), (80, (56, 42, 9)), (106.4, (13, 51, 26))):
        _disc(image, 112, cy - 4, 14, (12, 12, 12))
        _disc(image, 112, cy, 10, colour, shade=0.25)
    return image


def tennis_ball() -> np.ndarray:
    """A yellow-green felt ball with its white seams on clay."""
    rng = np.random.default_rng(1)
    image = np.full((SIZE, SIZE, 3), (150, 80, 55), np.float32) + rng.normal(0, 9, (SIZE, SIZE, 1)).astype(np.float32)
    _disc(image, 112, 112, 78, (205, 228, 60), shade=0.5)
    x, y = _grid()
    inside = np.hypot(x - 112, y - 112) < 77
    image += (rng.normal(0, 8, (SIZE, SIZE, 1)) * inside[..., None]).astype(np.float32)
    for cx in (112 - 105, 112 + 105):
        seam = np.clip(4.5 - np.abs(np.hypot(x - cx, y - 112) - 70), 0, 1) * inside
        image[:] = image * (1 - seam[..., None]) + seam[..., None] * np.array([235, 238, 225], np.float32)
    return image


def crossword() -> np.ndarray:
    """A crossword grid: black and white squares with thin rules."""
    x, y = _grid()
    rng = np.random.default_rng(3)
    black = rng.random((13, 13)) < 0.22
    cell_x, cell_y = np.minimum(x // 17.3, 12).astype(int), np.minimum(y // 17.3, 12).astype(int)
    image = np.full((SIZE, SIZE, 3), 250, np.float32)
    image[black[cell_y, cell_x]] = 15
    image[(x % 17.3 < 1) | (y % 17.3 < 1)] = 30
    return image


PICTURES: dict[str, Callable[[], np.ndarray]] = {
    "traffic light": traffic_light,
    "tennis ball": tennis_ball,
    "crossword puzzle": crossword,
}
"""What the picture shows (ImageNet's class name) → a function that draws it, float32 RGB [224,224,3] in [0, 255]."""

CLASSES = {852: "tennis ball", 918: "crossword puzzle", 920: "traffic light"}
"""ImageNet class indices of the drawn subjects."""


def preprocess(image: np.ndarray) -> np.ndarray:
    """EfficientNet-Lite's input: NCHW float32 [1,3,224,224], ``(pixel - 127) / 128``."""
    scaled = (np.clip(image, 0, 255) - 127) / 128
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)
