"""The tables that the harness prints, and the summary over all models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
_HAND_TUNED = ("ort", "openvino")


def header(facts: dict[str, Any], notes: Sequence[str]) -> str:
    """The machine, its roofs, and what is missing."""
    roofs = [
        f"{n} thread(s): {peak} GFLOP/s FMA peak, {facts['copy_gbs'][n]} GB/s copy"
        for n, peak in facts["fma_gflops"].items()
    ]
    warning = ["the machine is busy: figures below are not representative"] if facts["load"] > 0.5 else []
    return "\n".join([machine_line(facts), *roofs, *warning, *notes])


def machine_line(facts: dict[str, Any]) -> str:
    """The processor, its cores, and the load."""
    return f"{facts['cpu']}, {facts['cores']} cores, load {facts['load']}"


def table(rows: Sequence[Row]) -> str:
    """Figures of one model at one thread count. ``x rillet``: the engine's median over Rillet's."""
    ours = next((row for row in rows if row["engine"] == "rillet" and "median_s" in row), None)
    lines = [f"\n{rows[0]['model']}, {rows[0]['threads']} thread(s)"]
    lines.append(
        f"  {'engine':9}{'min':>10}{'median':>10}{'x rillet':>9}{'error':>7}{'load':>9}{'first':>9}{'peak':>9}"
        f"{'artifact':>9}{'compile':>9}{'at peak':>9}"
    )
    for row in rows:
        if "median_s" not in row:
            lines.append(f"  {row['engine']:9}failed: {row.get('error', 'no figures')}")
            continue
        ratio = f"{row['median_s'] / ours['median_s']:.2f}" if ours else "-"
        error = f"{row['error_ratio']:.2f}" if "error_ratio" in row else "ref"
        error = f"{row['deviation']:.2%}" if "deviation" in row else error
        lines.append(
            f"  {row['engine']:9}{_time(row['min_s']):>10}{_time(row['median_s']):>10}{ratio:>9}{error:>7}"
            f"{_time(row.get('load_s')):>9}{_time(row.get('first_call_s')):>9}{_size(row.get('peak_bytes')):>9}"
            f"{_size(row.get('artifact_bytes')):>9}{_time(row.get('compile_s')):>9}"
            f"{_size(row.get('compile_peak_bytes')):>9}"
        )
        if row.get("warm_compile_s"):
            lines[-1] += f" ({_time(row['warm_compile_s'])} with a warm cache)"
    if ours and ours.get("stats"):
        lines.append("  " + _stats_line(ours))
    return "\n".join(lines)


def _stats_line(row: Row) -> str:
    stats = row["stats"]
    arena, bound = stats.get("arena_bytes", 0), stats.get("arena_lower_bound", 0)
    budget = stats.get("constant_bytes", 0) + 1.3 * bound + 6e6
    return (
        f"rillet: {2 * stats.get('macs', 0) / row['min_s'] / 1e9:.1f} GFLOP/s, "
        f"{stats.get('dispatch_count', 0)} dispatches, arena {_size(arena)} (bound {_size(bound)}), "
        f"constants {_size(stats.get('constant_bytes'))}, code {_size(stats.get('code_bytes'))}, "
        f"peak memory {row['peak_bytes'] / budget:.0%} of weights + 1.3 x bound + 6 MB"
    )


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Geometric mean and minimum of (the faster of ONNX Runtime and OpenVINO ÷ ours), by thread count and figure.

    The pseudo-model ``call_overhead`` is left out.
    """
    result: dict[str, Any] = {}
    for threads in sorted({row["threads"] for row in rows}):
        for figure in ("median_s", "min_s"):
            ratios = _ratios([row for row in rows if row["threads"] == threads and figure in row], figure)
            if ratios:
                mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
                worst = min(ratios, key=ratios.__getitem__)
                result[f"{threads} threads, {figure[:-2]}"] = {
                    "geometric_mean": round(mean, 3), "worst": worst, "worst_ratio": round(ratios[worst], 3),
                    "models": len(ratios),
                }  # fmt: skip
    return result


def _ratios(rows: Sequence[Row], figure: str) -> dict[str, float]:
    ours = {row["model"]: row[figure] for row in rows if row["engine"] == "rillet" and row["model"] != "call_overhead"}
    ratios = {}
    for model, mine in ours.items():
        peers = [row[figure] for row in rows if row["model"] == model and row["engine"] in _HAND_TUNED]
        if peers:
            ratios[model] = min(peers) / mine
    return ratios


def closing(rows: Sequence[Row]) -> str:
    """The summary as text, empty when Rillet or both hand-tuned peers are missing."""
    lines = [
        f"  {label}: geometric mean {facts['geometric_mean']} over {facts['models']} models, "
        f"worst {facts['worst_ratio']} ({facts['worst']})"
        for label, facts in summary(rows).items()
    ]
    return "\n".join(["", "faster of ONNX Runtime and OpenVINO ÷ Rillet:", *lines]) if lines else ""


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}" if seconds * scale < 1000 else f"{seconds * scale:.0f} {unit}"
    return f"{seconds * 1e6:.2f} us"


def _size(size: float | None) -> str:
    if size is None:
        return "-"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
