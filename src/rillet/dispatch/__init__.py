"""Dispatch formation: tensor form → host program of dispatches (``flow``) and kernels (docs/reference/flow-form.md)."""

from __future__ import annotations

import dataclasses

from rillet.dispatch import (
    aliases,
    computed_inserts,
    host_views,
    long_concats,
    loop_scalars,
    merge_results,
    outline,
    resolve_dims,
    round_trips,
    share_kernels,
    simplify_kernels,
    slice_offsets,
    stats,
    tensor_selects,
)
from rillet.dispatch.form import check
from rillet.dispatch.packing import (
    pack_block_weights,
    pack_rhs,
    widen_at_uses,
    widen_factors,
    winograd,
    winograd_weights,
)
from rillet.dispatch.regions import form_regions
from rillet.dispatch.regions.groups import Limits
from rillet.ir.passes import Pass
from rillet.targets import DispatchOptions


def passes(options: DispatchOptions) -> list[Pass]:
    """The passes of this stage, in order."""
    packing = options.packing
    columns, transforms = packing.columns, winograd.Options() if options.winograd else None
    rhs = pack_rhs.Options(panel=columns, steps=packing.steps, ways=packing.ways, lanes=options.row_lanes)
    if not options.roomy:
        rhs = dataclasses.replace(rhs, bytes=128 * 1024, side_by_side=0, longest=8 * 1024)  # copies take memory
    block_weights = pack_block_weights.Options(panel=columns, share=options.shared_bytes)
    regions = Limits(scratch=options.chain_bytes, compact=not options.roomy, transforms=transforms)
    return [
        Pass("widen-at-uses", "dispatch", widen_at_uses.run, widen_at_uses.Options()),
        Pass("widen-factors", "dispatch", widen_factors.run, widen_factors.Options(cached=options.chain_bytes)),
        Pass("pack-rhs", "dispatch", pack_rhs.run, rhs),
        Pass("pack-block-weights", "dispatch", pack_block_weights.run, block_weights),
        Pass("resolve-dims", "dispatch", resolve_dims.run),
        Pass("tensor-selects", "dispatch", tensor_selects.run),
        Pass("computed-inserts", "dispatch", computed_inserts.run),
        Pass("loop-scalars", "dispatch", loop_scalars.run),
        Pass("host-views", "dispatch", host_views.run),
        Pass("slice-offsets", "dispatch", slice_offsets.run, slice_offsets.Options()),
        Pass("long-concats", "dispatch", long_concats.run, long_concats.Options()),
        Pass("form-regions", "dispatch", form_regions.run, regions),
        Pass("outline", "dispatch", outline.run),
        Pass("simplify-kernels", "dispatch", simplify_kernels.run),
        Pass("round-trips", "dispatch", round_trips.run),
        Pass("tensor-selects-again", "dispatch", tensor_selects.run),  # simplification makes them again
        Pass("merge-results", "dispatch", merge_results.run),
        Pass("aliases", "dispatch", aliases.run),
        Pass("share-kernels", "dispatch", share_kernels.run),
        Pass("winograd-weights", "dispatch", winograd_weights.run, transforms),
        Pass("stats", "dispatch", stats.run),
    ]


__all__ = ["check", "passes"]
