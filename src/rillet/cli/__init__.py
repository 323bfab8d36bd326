"""The ``rillet`` command, with one file for each subcommand."""

from __future__ import annotations

import argparse
import io
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

from rillet.cli.parser import Parser

COMMANDS = ("compile", "tune", "export", "run", "bench", "check", "verify", "inspect", "targets")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its status: 0 done, 1 failed with a message, 2 wrong usage, 130 interrupted."""
    with _interruptible():
        options = _parse(arguments)
    with _terminable():
        return _run(options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    from importlib.metadata import version

    parser = Parser(prog="rillet", description="Compile trained models into small native programs.")
    parser.add_argument("--version", action="version", version=f"rillet {version('rillet')}")
    parser.commands = COMMANDS
    commands = parser.add_subparsers(dest="command", required=True, metavar="|".join(COMMANDS))
    for name in COMMANDS:
        import_module(f"rillet.cli.{name}").register(commands)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may have characters that the terminal lacks
            stream.reconfigure(errors="backslashreplace")
    return parser.parse_args(arguments)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the process at once: there is nothing to clean up, and what is being imported would show a trace."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM (of ``timeout``, say) leaves as Ctrl-C does, so that temporary folders are removed."""

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(options: argparse.Namespace) -> int:
    from rillet.errors import RilletError, command_line, missing_package

    try:
        with command_line(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = options.handler(options)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, so that a full disk is noticed
            return status
    except RilletError as error:
        print(f"rillet: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        advice = missing_package(error)
        if advice is None:
            raise
        print(f"rillet: 'rillet {options.command}' {advice}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has closed it
        sys.stdout = None
        return 0
    except OSError as error:
        what = error.filename or "the output cannot be written"
        print(f"rillet: {error.strerror or error}: {what}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"rillet: out of memory{f': {error}' if str(error) else ''}; use smaller shapes", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rillet: interrupted", file=sys.stderr)
        return 130


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line, without the source code that Python's own form shows."""
    print(f"rillet: warning: {message}", file=sys.stderr)
