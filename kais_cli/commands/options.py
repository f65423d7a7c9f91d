"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from kais_cli.views.output import Format, Listing

Output = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]
Listed = Annotated[Listing, typer.Option("--output", "-o", help="Output format.")]
ParameterValues = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter; may be repeated."),
]
Timeout = Annotated[
    str,
    typer.Option(metavar="DURATION", help="Maximum time to follow the run, such as 90s or 1h30m."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Validate on the API server without changing anything."),
]
