"""Format instances for people: one line each, or a page of one."""

from __future__ import annotations

from datetime import datetime

from kais.conditions import ConditionType
from kais.resources.blueprint_instance import BlueprintInstance
from kais_cli.views import conditions, output, quantities, table_layout, text_layout

HEADERS = ("NAME", "BLUEPRINT", "REVISION", "STATUS", "OUTCOME", "READY", "AGE")


def row(instance: BlueprintInstance, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of an instance in a list."""
    status = instance.status
    ready = instance.condition(ConditionType.READY)
    return (
        instance.metadata.name,
        instance.spec.blueprint_ref.name,
        status.revision_in_use,
        status.phase,
        status.outcome,
        ready.status if ready else None,
        quantities.format_age(instance.metadata.creation_timestamp, now),
    )


def format_instance(instance: BlueprintInstance) -> str:
    """Format one instance: its blueprint, parameters, objects, outcome and conditions."""
    spec, status, metadata = instance.spec, instance.status, instance.metadata
    revision = f", revision {status.revision_in_use}" if status.revision_in_use else ""
    outcome = f", outcome {status.outcome}" if status.outcome else ""
    objects = [
        f"{kind}/{metadata.namespace}/{name}"
        for kind, name in (("Formation", status.formation), ("Mission", status.mission))
        if name
    ]
    rows = [(name, output.json_line(value)) for name, value in spec.parameters.items()]
    parameters = (
        text_layout.indent(table_layout.format_table(("NAME", "VALUE"), rows))
        if rows
        else "  none\n"
    )
    return (
        f"{metadata.name} in {metadata.namespace}: {status.phase or 'Pending'}{outcome}\n"
        f"  of Blueprint/{metadata.namespace}/{spec.blueprint_ref.name}{revision}\n"
        f"\nParameters:\n{parameters}"
        f"\nObjects:\n  {', '.join(objects) or 'none yet'}\n"
        f"\nRun: {status.run_id or 'not opened'}\n"
        f"\nConditions:\n{conditions.format_conditions(instance)}"
    )
