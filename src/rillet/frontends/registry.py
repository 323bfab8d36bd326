"""Which frontends there are: Rillet's own, and those of other packages (entry points ``rillet.frontends``).

An entry point names a frontend and gives what makes one without arguments, a class as a rule::

    [project.entry-points."rillet.frontends"]
    keras = "rillet_keras:KerasFrontend"
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from rillet.errors import CompileError
from rillet.frontends.arguments import checked_shapes, checked_sizes
from rillet.frontends.frontend import Frontend, Model

GROUP = "rillet.frontends"
_OWN = "rillet"  # the package of the built-in ones

# Asked in this order, those of other packages before the last: ONNX takes a file of any name.
_BUILT_IN = {
    "mlir": "rillet.frontends.mlir.model:MlirFrontend",
    "onnx": "rillet.frontends.onnx.model:OnnxFrontend",
}


def open_model(source: object, inputs: object = None, dims: object = None) -> Model:
    """The model in ``source``, which may be one already, with the shapes and sizes that ``rillet.compile`` takes.

    Raises CompileError when no frontend takes the source, when it cannot be read, and for arguments that do not fit.
    """
    shapes, sizes = checked_shapes(inputs), checked_sizes(dims)
    model = source if isinstance(source, Model) else _frontend_of(source).open(source)
    return model.pinned(shapes, sizes) if shapes or sizes else model


@cache
def frontends() -> tuple[Frontend, ...]:
    """All frontends in the order in which they are asked.

    Raises CompileError when two packages claim one name, or one gives something that is no frontend.
    """
    *first, last = (_loaded(EntryPoint(name, path, GROUP), _OWN) for name, path in _BUILT_IN.items())
    return (*first, *_others(entry_points(group=GROUP)), last)


def _others(points: Iterable[EntryPoint]) -> list[Frontend]:
    owners = dict.fromkeys(_BUILT_IN, _OWN)
    found = []
    for point in sorted(points, key=lambda p: p.name):
        owner = point.dist.name if point.dist else point.value
        if point.name in owners:
            raise CompileError(
                f"the packages {owners[point.name]} and {owner} both have a frontend named '{point.name}': "
                "uninstall one of them"
            )
        owners[point.name] = owner
        found.append(_loaded(point, owner))
    return found


def _loaded(point: EntryPoint, owner: str) -> Frontend:
    try:
        frontend = point.load()()
    except Exception as error:
        if owner == _OWN:
            raise
        raise CompileError(
            f"the frontend '{point.name}' of the package {owner} cannot be loaded ({type(error).__name__}: {error}): "
            "mend or uninstall it"
        ) from error
    if not isinstance(frontend, Frontend) or frontend.name != point.name:
        raise CompileError(f"the package {owner} names '{point.name}' as a frontend, but {point.value} is none of it")
    return frontend


def _frontend_of(source: object) -> Frontend:
    for frontend in frontends():
        if frontend.accepts(source):
            return frontend
    *most, last = (frontend.sources for frontend in frontends())
    raise CompileError(f"cannot compile an object of type {type(source).__name__}: give {', '.join(most)}, or {last}")
