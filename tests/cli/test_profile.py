"""Profiles: every dispatch is seen, figures follow from times and facts, and the trace is in the common format."""

from __future__ import annotations

import itertools
import json

import models
import rillet
from rillet.cli import main, profile


def compiled(tmp_path):
    path = tmp_path / "mnist.rlm"
    rillet.compile(str(models.path("mnist_cnn"))).save(path)
    return path


def test_every_dispatch_of_every_call_is_recorded(tmp_path):
    module = rillet.load(compiled(tmp_path), profile=True)
    runs = profile.record(module, list(models.inputs("mnist_cnn").values()), calls=3)
    assert len(runs) == 3
    assert all(len(run) == module.stats["dispatch_count"] for run in runs)
    for run in runs:
        assert all(begin <= end for _, begin, end in run)
        assert all(a[2] <= b[1] for a, b in itertools.pairwise(run))
    assert module.take_profile() == []


def test_entries_name_their_nodes_and_work(tmp_path):
    module = rillet.load(compiled(tmp_path))
    assert sum(entry["macs"] for entry in module.entries) == module.stats["macs"]
    assert "conv1" in " ".join(entry["sources"] for entry in module.entries)
    assert module.take_profile() == []


def test_summary_takes_the_fastest_run_of_each_dispatch():
    class Facts:
        entries = ({"name": "k", "macs": 500, "bytes": 2000, "sources": "n"},)

    runs = [[("k", 0, 1000), ("k", 2000, 2500)], [("k", 0, 800), ("k", 2000, 2900)]]
    (kernel,) = profile.summarize(Facts, runs)
    assert kernel.dispatches == 2
    assert kernel.microseconds == (800 + 500) / 1e3
    assert kernel.share == 1
    assert kernel.gflops == 2 * 500 / 500
    assert kernel.gbytes == 2000 / 500


def test_bench_profile_prints_kernels_and_writes_a_trace(tmp_path, capsys):
    trace = tmp_path / "trace.json"
    assert main(["bench", str(compiled(tmp_path)), "--profile", "--trace", str(trace)]) == 0
    assert "GFLOP/s" in capsys.readouterr().out
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"name", "ph", "pid", "tid", "ts", "dur", "args"} <= set(events[0])
    assert {e["args"]["call"] for e in events} == set(range(10))
