"""The page of the graph names every route, command, tool and field, and no others."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import ModuleType

from e2e.support import documents
from kais_mcp import chart_tools, graph_tools
from knowledge_client.models import (
    ActionStep,
    Chart,
    GraphEntity,
    GraphRelation,
    RememberAct,
    ReviseAct,
)
from knowledge_service.domain import chart_plans, charts
from knowledge_service.routes import charts as chart_routes
from knowledge_service.routes import events as event_routes
from knowledge_service.routes import fact_lifecycle as lifecycle_routes
from knowledge_service.routes import facts as fact_routes
from knowledge_service.routes import graph as graph_routes
from knowledge_service.routes import links as link_routes
from knowledge_service.routes import operations as operation_routes
from knowledge_service.routes import recall as recall_routes
from knowledge_service.routes import usage as usage_routes
from scripts import cli_reference

TEXT = (documents.ROOT / "docs/reference/graph.md").read_text()
CODE = re.findall(r"`([^`\n]+)`", TEXT)


def column(heading: str) -> set[str]:
    """Return the code of a column of all tables that have it."""
    found: set[str] = set()
    index = None
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells:
            index = None
        elif heading in cells:
            index = cells.index(heading)
        elif index is not None:
            found |= set(re.findall(r"`([^`]+)`", cells[index]))
    return found


def routes_of(*modules: ModuleType) -> set[str]:
    return {
        f"{method} {route.path}"
        for module in modules
        for route in module.router.routes
        for method in route.methods
    }


def test_every_route_is_in_the_table() -> None:
    assert column("Route") == routes_of(graph_routes, chart_routes)


def test_every_command_is_in_the_table() -> None:
    commands = {
        typed.removeprefix("kais knowledge ")
        for typed, _ in cli_reference.commands()
        if typed.startswith(("kais knowledge graph ", "kais knowledge charts "))
    }
    assert {command.partition(" --")[0] for command in column("Command")} == commands


def test_every_tool_is_in_the_table() -> None:
    assert column("MCP tool") == {tool.name for tool in (*graph_tools.TOOLS, *chart_tools.TOOLS)}


def test_operations_on_facts_name_routes_commands_and_tools_that_exist() -> None:
    modules = (
        fact_routes, lifecycle_routes, recall_routes, link_routes, usage_routes, event_routes,
        operation_routes,
    )  # fmt: skip
    commands = {typed for typed, _ in cli_reference.commands()}
    assert column("HTTP") - routes_of(*modules) == set()
    assert column("Command line") - commands == set()


def test_every_field_is_on_the_page() -> None:
    fields = {
        field.alias or name
        for model in (GraphEntity, GraphRelation, Chart, ActionStep)
        for name, field in model.model_fields.items()
    }
    assert fields - set(CODE) == set()


def test_every_field_of_a_part_is_in_the_table() -> None:
    writer = chart_plans.Writer(None, None, datetime(2030, 1, 1, tzinfo=UTC))
    step = chart_plans.StepTitle("one")
    part = charts.Part("id", "chart_1_action_1", charts.STEP, (), {})
    chart = charts.StoredChart("chart_1", "realm:demo", part, part, part, ())
    acts = chart_plans.plan_creation(
        "chart_2", ("a", "b"), writer.now, [step], writer, charts.Origin(chart, part)
    )
    acts += chart_plans.plan_completion(chart, part, [], writer)
    written: set[str] = set()
    for act in acts:
        match act:
            case RememberAct(fact=fact):
                written |= set(fact.data or {})
            case ReviseAct(changes=changes):
                written |= set(changes.data or {})
    assert column("Field") == written
