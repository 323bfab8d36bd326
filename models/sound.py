"""Synthesized sound at 16 kHz for the voice activity detector: silence, noise, tones and a vowel-like voice.

The voice is a source–filter model (Fant 1960): a pulse train with a falling pitch through the first three formants
of a row of vowels, shaped into syllables.
"""

from __future__ import annotations

import numpy as np

SAMPLE_RATE = 16000
WINDOW, CONTEXT = 512, 64
_VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (530, 1840, 2480), (300, 870, 2240), (570, 840, 2410))
"""Formant frequencies in Hz of a, i, e, u, o (Peterson & Barney 1952, male speakers)."""
_BANDWIDTHS = (80.0, 100.0, 140.0)


def _resonator(x: np.ndarray, frequency: float, bandwidth: float) -> np.ndarray:
    """Two-pole resonator with unit gain at 0 Hz."""
    radius = np.exp(-np.pi * bandwidth / SAMPLE_RATE)
    a1, a2 = 2 * radius * np.cos(2 * np.pi * frequency / SAMPLE_RATE), -radius * radius
    y = np.zeros(x.size + 2)
    gain = 1 - a1 - a2
    for n in range(x.size):
        y[n + 2] = gain * x[n] + a1 * y[n + 1] + a2 * y[n]
    return y[2:]


def _voice(seconds: float, rng: np.random.Generator) -> np.ndarray:
    count = int(seconds * SAMPLE_RATE)
    t = np.arange(count) / SAMPLE_RATE
    pitch = 135 - 12 * t / max(seconds, 1e-9) + 12 * np.sin(2 * np.pi * 2.1 * t) + rng.normal(0, 0.6, count)
    phase = np.cumsum(pitch / SAMPLE_RATE)
    pulses = np.diff(np.floor(phase), prepend=0.0)
    source = np.convolve(pulses, np.hanning(48))[:count] + rng.normal(0, 0.012, count)
    source = np.diff(source, prepend=0.0)
    syllable = 0.22
    out = np.zeros(count)
    for index, start in enumerate(range(0, count, int(syllable * SAMPLE_RATE))):
        part = source[start : start + int(syllable * SAMPLE_RATE)]
        for frequency, bandwidth in zip(_VOWELS[index % len(_VOWELS)], _BANDWIDTHS, strict=True):
            part = _resonator(part, frequency, bandwidth)
        envelope = np.sin(np.pi * np.arange(part.size) / part.size) ** 0.6
        out[start : start + part.size] = envelope * part / max(np.abs(part).max(), 1e-9)
    return 0.5 * out


def scene(seed: int = 0) -> tuple[np.ndarray, list[tuple[str, float]]]:
    """A mono float32 signal in [-1, 1] with silence, a tone, voice and noise; segments as (kind, end in seconds)."""
    rng = np.random.default_rng(seed)
    plan = (("silence", 0.8), ("tone", 0.8), ("voice", 1.5), ("noise", 0.8), ("voice", 1.5), ("silence", 0.8))
    parts, ends, now = [], [], 0.0
    for kind, seconds in plan:
        count = int(seconds * SAMPLE_RATE)
        if kind == "tone":
            part = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(count) / SAMPLE_RATE)
        elif kind == "noise":
            part = rng.normal(0, 0.1, count)
        else:
            part = _voice(seconds, rng) if kind == "voice" else np.zeros(count)
        parts.append(part + rng.normal(0, 0.001, count))
        now += seconds
        ends.append((kind, now))
    return np.clip(np.concatenate(parts), -1, 1).astype(np.float32), ends


def frames(signal: np.ndarray) -> np.ndarray:
    """[windows, 576]: each window of 512 samples with the 64 samples before it (zeros at the start)."""
    count = signal.size // WINDOW
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), signal[: count * WINDOW]])
    view = np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + WINDOW)[::WINDOW]
    return np.ascontiguousarray(view, np.float32)
