"""Format the conditions of an object for people."""

from __future__ import annotations

from kais.resources.base import Resource
from kais_cli.views import table_layout, text_layout


def format_conditions(resource: Resource) -> str:
    """Format the conditions of an object with their messages."""
    rows = [(c.type, c.status, c.reason, c.message) for c in resource.status.conditions]
    if not rows:
        return "  none yet: the operator has not processed it\n"
    return text_layout.indent(
        table_layout.format_table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows)
    )
