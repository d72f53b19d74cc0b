"""Options that mean the same in every command."""

from __future__ import annotations

from typing import Annotated

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
