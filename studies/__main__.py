"""Run a recipe from a checkout: `python -m studies NAME …`; without a name, list them all."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from privot.core.errors import PrivotError
from studies.recipes import RECIPES, listing, parser_of


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line. What a recipe records as its command is free of this machine's folders."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(f"python -m studies NAME [--help] …\n\n{listing()}")
        return
    name, *rest = words
    if name not in RECIPES:
        raise SystemExit(f"recipe {name!r} is not known: `python -m studies` lists them")
    chosen = parser_of(name).parse_args(rest)
    chosen.command = shlex.join(["python", "-m", "studies", name, *map(_portable, rest)])
    try:
        chosen.run(chosen)
    except PrivotError as error:
        raise SystemExit(f"error: {error}") from error


def _portable(word: str) -> str:
    """An absolute path without the folders that are this machine's alone."""
    path = Path(word)
    if not path.is_absolute():
        return word
    return "DIR" if path.is_dir() else path.name


if __name__ == "__main__":
    main()
