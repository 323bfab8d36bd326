"""The list of all passes, and running a part of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rillet import pipeline, targets
from rillet.targets.devices import resolve
from tests.support.export_graphs import dense
from tests.support.importing import import_model

OPTIONS = pipeline.options_for(targets.get("x86-64-v3"), devices=resolve(["cpu-sync", "cpu-task"]))


def test_a_pass_is_named_once_in_its_stage() -> None:
    names = Counter((step.stage, step.name) for step in pipeline.passes(OPTIONS))
    assert [name for name, count in names.items() if count > 1] == []


def test_passes_are_in_the_order_of_the_stages() -> None:
    order = [pipeline.STAGES.index(step.stage) for step in pipeline.passes(OPTIONS)]
    assert order == sorted(order)


def test_a_run_goes_on_where_another_ended(tmp_path: Path) -> None:
    program, trace = import_model(dense()), pipeline.Trace(tmp_path)
    pipeline.run(program, OPTIONS, until="dispatch", trace=trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01-optimize.mlir", "02-dispatch.mlir"]
    pipeline.run(program, OPTIONS, after="dispatch", until="schedule", trace=trace)
    assert (tmp_path / "05-schedule.mlir").exists() and not (tmp_path / "06-hal.mlir").exists()


def test_targets_are_cut_as_their_backend_says() -> None:
    server, small, board = (targets.get(name) for name in ("x86-64-v3", "x86-64-v3", "cortex-m55"))
    assert pipeline.options_for(server).dispatch.winograd
    assert not pipeline.options_for(small, optimize_for_size=True).dispatch.winograd
    cut = pipeline.options_for(board).dispatch
    assert (cut.roomy, cut.chain_bytes, cut.row_lanes, cut.shared_bytes) == (False, 0, 1, False)
    assert cut.packing == board.packing
