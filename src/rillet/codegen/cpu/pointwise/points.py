"""One element, or one vector of elements, of a group of results."""

from __future__ import annotations

from rillet.codegen import coordinates as coords
from rillet.codegen.coordinates import Coordinate
from rillet.codegen.cpu.pointwise.plan import Group
from rillet.codegen.emit import views
from rillet.codegen.emit.elements import Evaluator


def store_point(evaluator: Evaluator, group: Group, where: list[Coordinate]) -> None:
    """Compute the group's results at ``where`` and store them; inserted results go to their offsets."""
    values = [evaluator.at(value, where) for value in group.values]
    for number, into, value in zip(group.numbers, group.insertions, values, strict=True):
        place = where
        if into is not None:
            offsets, _, _ = views.box(evaluator.kernel, into)
            place = [coords.add(c, o, evaluator.lanes) for c, o in zip(where, offsets, strict=True)]
        evaluator.store(evaluator.result(number), place, value)
