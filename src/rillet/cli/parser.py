"""The parser of the command line, which says what a misspelled word may stand for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from rillet.support.suggestions import did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser whose message for an option or command that it does not know names the one that may be meant."""

    _words: Sequence[str] = ()
    commands: Sequence[str] = ()  # of the parser of the whole line

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the words; those that stay are an error, here: the parser of the line knows no command's options."""
        self._words = sys.argv[1:] if args is None else list(args)
        found, extras = super().parse_known_args(self._words, namespace)
        if extras:
            self.error(f"unrecognized arguments: {' '.join(extras)}")
        return found, extras

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and leave with status 2."""
        super().error(f"{message}{self._meant()}")

    def _meant(self) -> str:
        """What the first unknown option or command of the line may stand for."""
        options = [name for name in self._option_string_actions if name.startswith("--")]
        for word in self._words:
            name = word.partition("=")[0]
            if name.startswith("--") and not any(option.startswith(name) for option in options):
                return did_you_mean(name, options)
            if self.commands and not name.startswith("-"):
                return "" if name in self.commands else did_you_mean(name, self.commands)
        return ""
