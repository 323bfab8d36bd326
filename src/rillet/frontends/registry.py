"""Which frontends there are: Rillet's own, and those of other packages (entry points ``rillet.frontends``)."""

from __future__ import annotations

from functools import cache

from rillet.errors import CompileError
from rillet.frontends.arguments import checked_shapes, checked_sizes
from rillet.frontends.frontend import Frontend, Model, Values
from rillet.frontends.tensor_size import check_program
from rillet.ir import Program
from rillet.support.plugins import Plugins

_BUILT_IN = {
    "mlir": "rillet.frontends.mlir.model:MlirFrontend",
    "onnx": "rillet.frontends.onnx.model:OnnxFrontend",
}
FRONTENDS: Plugins[Frontend] = Plugins("frontend", Frontend, _BUILT_IN)


def open_model(source: object, inputs: object = None, dims: object = None) -> Model:
    """The model in ``source``, which may be one already, with the shapes and sizes that ``rillet.compile`` takes.

    Raises CompileError when no frontend takes the source, when it cannot be read, and for arguments that do not fit.
    """
    shapes, sizes = checked_shapes(inputs), checked_sizes(dims)
    model = source if isinstance(source, Model) else _frontend_of(source).open(source)
    return model.pinned(shapes, sizes) if shapes or sizes else model


def import_program(model: Model, values: Values | None = None) -> Program:
    """The model in the tensor form, as ``Model.program`` gives it, whatever frontend that is of.

    Raises CompileError also where a tensor is larger than any memory.
    """
    program = model.program(values)
    check_program(program)
    return program


@cache
def frontends() -> tuple[Frontend, ...]:
    """All frontends in the order in which they are asked: those of other packages before ONNX, which takes any file.

    Raises CompileError when two packages claim one name, or one gives an object that is not a frontend.
    """
    others = [name for name in FRONTENDS.names() if name not in _BUILT_IN]
    return tuple(FRONTENDS.get(name) for name in ("mlir", *others, "onnx"))


def _frontend_of(source: object) -> Frontend:
    for frontend in frontends():
        if _accepts(frontend, source):
            return frontend
    *most, last = (frontend.sources for frontend in frontends())
    raise CompileError(f"cannot compile an object of type {type(source).__name__}: give {', '.join(most)}, or {last}")


def _accepts(frontend: Frontend, source: object) -> bool:
    try:
        return frontend.accepts(source)
    except Exception as error:
        if frontend.name in _BUILT_IN:
            raise
        raise CompileError(
            f"the frontend '{frontend.name}' of the package {FRONTENDS.package(frontend.name)} cannot tell whether it "
            f"opens a {type(source).__name__} ({type(error).__name__}: {error}): mend or uninstall it"
        ) from error
