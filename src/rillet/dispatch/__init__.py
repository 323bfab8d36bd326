"""Dispatch formation: tensor form → host program of dispatches (``flow``) and kernels (docs/reference/flow-form.md)."""

from __future__ import annotations

import dataclasses

from rillet.dispatch import (
    aliases,
    computed_inserts,
    host_views,
    loop_scalars,
    outline,
    resolve_dims,
    round_trips,
    share_kernels,
    simplify_kernels,
    stats,
    tensor_selects,
)
from rillet.dispatch.form import check
from rillet.dispatch.packing import pack_block_weights, pack_rhs, widen_at_uses, winograd, winograd_weights
from rillet.dispatch.regions import form_regions
from rillet.dispatch.regions.groups import Limits
from rillet.ir.passes import Pass

PASSES = [
    Pass("widen-at-uses", "dispatch", widen_at_uses.run, widen_at_uses.Options()),
    Pass("pack-rhs", "dispatch", pack_rhs.run, pack_rhs.Options()),
    Pass("pack-block-weights", "dispatch", pack_block_weights.run, pack_block_weights.Options()),
    Pass("resolve-dims", "dispatch", resolve_dims.run),
    Pass("tensor-selects", "dispatch", tensor_selects.run),
    Pass("computed-inserts", "dispatch", computed_inserts.run),
    Pass("loop-scalars", "dispatch", loop_scalars.run),
    Pass("host-views", "dispatch", host_views.run),
    Pass("form-regions", "dispatch", form_regions.run, Limits()),
    Pass("outline", "dispatch", outline.run),
    Pass("simplify-kernels", "dispatch", simplify_kernels.run),
    Pass("round-trips", "dispatch", round_trips.run),
    Pass("tensor-selects", "dispatch", tensor_selects.run),  # simplification makes them anew
    Pass("aliases", "dispatch", aliases.run),
    Pass("share-kernels", "dispatch", share_kernels.run),
    Pass("winograd-weights", "dispatch", winograd_weights.run),
    Pass("stats", "dispatch", stats.run),
]


def passes(
    panel: int,
    steps: tuple[int, int] = (1, 1),
    compact: bool = False,
    scratch: int = 0,
    lanes: int = 1,
    transforms: winograd.Options | None = None,
    share: bool = True,
) -> list[Pass]:
    """The passes for a target whose packed panels have ``panel`` columns; ``steps``: how many steps of 8-bit integers
    lie together in them, and in how many ways; ``compact``: prefer less memory; ``lanes`` of a vector of f32;
    ``scratch``, ``transforms``: see ``Limits``; ``share``: whether integers of a few bits share bytes.
    """
    packing = pack_rhs.Options(panel=panel, steps=steps[0], ways=steps[1], lanes=lanes)
    if compact:
        packing = dataclasses.replace(packing, bytes=128 * 1024, side_by_side=0, longest=8 * 1024)  # copies take memory
    options = {
        "pack-rhs": packing,
        "pack-block-weights": pack_block_weights.Options(panel=panel, share=share),
        "form-regions": Limits(scratch=scratch, compact=compact, transforms=transforms),
        "winograd-weights": transforms,
    }
    return [dataclasses.replace(p, options=options.get(p.name, p.options)) for p in PASSES]


__all__ = ["PASSES", "check", "passes"]
