"""Profiles: every dispatch is seen, figures follow from times and facts, and the trace is in the common format."""

from __future__ import annotations

import itertools
import json
import sys

import onnx.parser
import pytest

import models
import rillet
from rillet.analysis import roofs
from rillet.analysis.roofs import Roofline
from rillet.cli import main, profile
from rillet.errors import compiler_installation


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


def test_shares_are_of_the_roof_that_binds():
    class Facts:
        entries = (
            {"name": "k", "macs": 500, "bytes": 2000, "sources": "n"},
            {"name": "old", "macs": 0, "bytes": 0, "sources": ""},
        )

    roofline = Roofline(peak=4e9, copies={2000: 8e9})
    fast, old = profile.summarize(Facts, [[("k", 0, 500), ("old", 500, 600)]], roofline)
    assert (fast.of_roof, fast.bound) == (pytest.approx(0.5), "compute")
    assert old.gflops is None and old.of_roof is None
    lines = profile.table([fast, old]).splitlines()
    assert lines[0].split()[3:7] == ["GFLOP/s", "GB/s", "roof", "kernel"]
    assert lines[1].split()[3:8] == ["2.0", "4.0", "50%", "c", "k"] and lines[2].split()[3:6] == ["-", "-", "-"]
    (kernel, *_) = profile.summarize(Facts, [[("k", 0, 500)]], with_rates=False)
    assert kernel.gflops is None and "GFLOP/s" not in profile.table([kernel])


def test_bench_profile_prints_kernels_and_writes_a_trace(tmp_path, capsys):
    trace = tmp_path / "trace.json"
    assert main(["bench", str(compiled(tmp_path)), "--profile", "--trace", str(trace)]) == 0
    roofs, titles, *kernels, total, legend = capsys.readouterr().out.splitlines()
    assert roofs.startswith("roofs of one thread: ") and "roof" in titles
    assert all("% c " in line or "% m " in line for line in kernels)
    assert total.split()[1] == "100.0%" and total.endswith("  total of a call in these kernels")
    assert float(total.split()[0]) == pytest.approx(
        sum(float(line.split()[0]) for line in kernels), abs=0.1 * len(kernels)
    )
    assert legend.startswith("roof: share of the most there is, of c: computing")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"name", "ph", "pid", "tid", "ts", "dur", "args"} <= set(events[0])
    assert {e["args"]["call"] for e in events} == set(range(10))
    assert all(e["args"]["of_roof"] > 0 and e["args"]["bound"] in ("compute", "memory") for e in events)


def test_shares_come_as_json(tmp_path, capsys):
    assert main(["bench", str(compiled(tmp_path)), "--profile", "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)
    assert all(k["of_roof"] > 0 and k["gflops"] >= 0 and k["bound"] in ("compute", "memory") for k in kernels)


def test_profile_without_the_compiler_says_why_a_column_is_missing(tmp_path, capsys, monkeypatch):
    path = compiled(tmp_path)
    monkeypatch.setitem(sys.modules, "rillet.analysis.roofs", None)
    monkeypatch.delattr("rillet.analysis.roofs")
    assert main(["bench", str(path), "--profile"]) == 0
    note, titles, *_ = capsys.readouterr().out.splitlines()
    assert note == ("no share of the roof, which cannot be measured: it takes the compiler: " + compiler_installation())
    assert "GFLOP/s" in titles and "roof" not in titles


def test_profile_of_an_unknown_target_says_why_a_column_is_missing(tmp_path, capsys, monkeypatch):
    path = compiled(tmp_path)
    monkeypatch.setattr(roofs, "names", list)
    assert main(["bench", str(path), "--profile"]) == 0
    assert "which cannot be measured: no target of this version has exactly the features" in capsys.readouterr().out


def test_profile_of_dynamic_sizes_has_times_only(tmp_path, capsys):
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }'
    model, trace = tmp_path / "dynamic.onnx", tmp_path / "trace.json"
    model.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert main(["bench", str(model), "--profile", "--trace", str(trace)]) == 0
    _, note, titles, kernel, total = capsys.readouterr().out.splitlines()
    assert note.startswith("no rates: some sizes are known at calls only; compile with --dim")
    assert (
        titles.split() == ["us", "share", "n", "kernel", "(nodes)"]
        and kernel
        and " 100.0%    1  total of a call" in total
    )
    assert set(json.loads(trace.read_text())["traceEvents"][0]["args"]) == {"call", "nodes"}
