"""The tool set `kais`: blueprints, missions, and the knowledge of a team, in one namespace.

Launching a team costs money and runs code, and so does the work that a message starts. Their tools
exist only if the person asks for them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import Field

from kais import topology
from kais.metadata_validation import MAX_NAME, SUBDOMAIN
from kais.resources import base
from kais.resources.blueprint import Blueprint
from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais_cli import errors
from kais_cli.blueprints import instances, lookup, parameter_values
from kais_cli.cluster import resource_access
from kais_cli.knowledge import scope_context
from kais_cli.mcp.person_knowledge import PersonKnowledge
from kais_cli.runs import report
from kais_cli.session import Session
from kais_mcp import framing, knowledge_tools
from kais_mcp.fact_views import KnowledgeAnswer
from kais_mcp.knowledge_tools import RecallAnswer, RecallArguments
from kais_mcp.tools import Tool, ToolAnswer, ToolArguments

T = TypeVar("T")
SET = "kais"
_MAX_LISTED = 100
_MAX_TEXT = 2000
_MAX_NAME_PART = 200
_NAME_PATTERN = f"^{SUBDOMAIN}$"
_NAME_OR_NONE_PATTERN = f"^({SUBDOMAIN})?$"  # models write an empty text for none


def _name(description: str) -> Any:
    """Return the field of a name that an object of the namespace can have."""
    return Field(min_length=1, max_length=MAX_NAME, pattern=_NAME_PATTERN, description=description)


def _name_or_none(description: str) -> Any:
    """Return the field of a name that may be left out."""
    return Field(
        default=None, max_length=MAX_NAME, pattern=_NAME_OR_NONE_PATTERN, description=description
    )


class NoArguments(ToolArguments):
    """No arguments."""


class ParameterView(ToolAnswer):
    """A parameter of a Blueprint."""

    name: str
    type: str
    description: str | None = None
    required: bool
    default: Any = None


class BlueprintView(ToolAnswer):
    """A Blueprint."""

    name: str
    description: str | None = None
    served_revision: int | None = None
    parameters: tuple[ParameterView, ...] = ()


class BlueprintsAnswer(KnowledgeAnswer):
    """The Blueprints of the namespace; `truncated` means that there are more."""

    namespace: str
    blueprints: tuple[BlueprintView, ...]
    truncated: bool


class MissionArguments(ToolArguments):
    """Names a Mission."""

    mission: str = _name("Name of the Mission.")


class MissionStatusArguments(ToolArguments):
    """Names a Mission, or none for all of the namespace."""

    mission: str | None = _name_or_none("Name of the Mission. Default: all of them.")


class MissionView(ToolAnswer):
    """The state of a Mission."""

    name: str
    phase: str | None = None
    outcome: str | None = None
    attempt: int | None = None
    run: str | None = None
    message: str | None = None


class MissionsAnswer(KnowledgeAnswer):
    """Missions of the namespace; `truncated` means that there are more."""

    namespace: str
    missions: tuple[MissionView, ...]
    truncated: bool = False


class CheckView(ToolAnswer):
    """The result of a check."""

    name: str
    status: str
    message: str | None = None


class ResultsAnswer(KnowledgeAnswer):
    """The result of a Mission and its checks."""

    mission: MissionView
    result: str | None = None
    result_truncated: bool = False
    checks: tuple[CheckView, ...] = ()


class TeamRecallArguments(RecallArguments):
    """A question to the facts of a team."""

    blueprint: str | None = _name_or_none(
        "Blueprint of the team. Default: every scope that you can see."
    )


class LaunchArguments(ToolArguments):
    """The Blueprint to launch, with its parameters."""

    blueprint: str = _name("Name of the Blueprint.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, max_length=100, description="Values of the Blueprint's parameters."
    )
    name: str | None = _name_or_none("Name of the instance. Default: generated.")


class LaunchAnswer(ToolAnswer):
    """The created instance; its Mission has the same name."""

    namespace: str
    instance: str
    mission: str


class SendMessageArguments(ToolArguments):
    """A message to a running team, or to one of its cells."""

    message: str = Field(min_length=1, max_length=65536, description="Text of the message.")
    formation: str | None = _name_or_none("Name of the Formation that gets the message.")
    cell: str | None = _name_or_none(
        "Cell of the Formation, such as lead-0. Without formation: name of a Cell."
    )


class SendMessageAnswer(ToolAnswer):
    """The mission that carries the message; kais_get_results has its answer."""

    namespace: str
    mission: str


async def _list_blueprints(backend: PersonKnowledge, _: NoArguments) -> BlueprintsAnswer:
    session = backend.session
    bodies = await _in_thread(session.cluster.list, "Blueprint", session.namespace)
    blueprints = resource_access.read_valid(session, Blueprint, bodies[:_MAX_LISTED])
    return BlueprintsAnswer(
        namespace=session.namespace,
        blueprints=tuple(_blueprint_view(blueprint) for blueprint in blueprints),
        truncated=len(bodies) > _MAX_LISTED,
    )


def _blueprint_view(blueprint: Blueprint) -> BlueprintView:
    return BlueprintView(
        name=blueprint.metadata.name,
        description=_bounded(blueprint.spec.description),
        served_revision=blueprint.status.served_revision,
        parameters=tuple(
            ParameterView(
                name=parameter.name,
                type=str(parameter.type),
                description=_bounded(parameter.description),
                required=parameter.default is None
                if parameter.required is None
                else parameter.required,
                default=parameter.default,
            )
            for parameter in blueprint.spec.parameters
        ),
    )


async def _mission_status(
    backend: PersonKnowledge, arguments: MissionStatusArguments
) -> MissionsAnswer:
    session = backend.session
    if arguments.mission:
        missions = [await _mission(session, arguments.mission)]
        return MissionsAnswer(
            namespace=session.namespace, missions=tuple(map(_mission_view, missions))
        )
    bodies = await _in_thread(session.cluster.list, "Mission", session.namespace)
    missions = resource_access.read_valid(session, Mission, bodies[:_MAX_LISTED])
    return MissionsAnswer(
        namespace=session.namespace,
        missions=tuple(map(_mission_view, missions)),
        truncated=len(bodies) > _MAX_LISTED,
    )


async def _get_results(backend: PersonKnowledge, arguments: MissionArguments) -> ResultsAnswer:
    mission = await _mission(backend.session, arguments.mission)
    status = mission.status
    return ResultsAnswer(
        mission=_mission_view(mission),
        result=status.result,
        result_truncated=bool(status.result_truncated),
        checks=tuple(
            CheckView(name=check.name, status=check.status, message=_bounded(check.message))
            for check in status.checks
        ),
    )


async def _mission(session: Session, name: str) -> Mission:
    return Mission.from_dict(await _in_thread(resource_access.get, session, "Mission", name))


def _mission_view(mission: Mission) -> MissionView:
    status = mission.status
    return MissionView(
        name=mission.metadata.name,
        phase=status.phase,
        outcome=status.outcome,
        attempt=status.attempt,
        run=status.run_id,
        message=_bounded(status.message),
    )


async def _recall(backend: PersonKnowledge, arguments: TeamRecallArguments) -> RecallAnswer:
    fields = arguments.model_dump(exclude={"blueprint"})
    if arguments.blueprint:
        fields["scopes"] = (scope_context.path(backend.session, arguments.blueprint),)
    return await knowledge_tools.recall(backend, RecallArguments.model_validate(fields))


async def _launch_team(backend: PersonKnowledge, arguments: LaunchArguments) -> LaunchAnswer:
    session = backend.session
    body = await _in_thread(_create_instance, session, arguments)
    name = body["metadata"]["name"]
    return LaunchAnswer(namespace=session.namespace, instance=name, mission=name)


def _create_instance(session: Session, arguments: LaunchArguments) -> dict[str, Any]:
    revision = lookup.revision(session, arguments.blueprint)
    parameter_values.validate(
        revision.spec.parameters,
        arguments.parameters,
        subject=parameter_values.in_cluster(session.namespace, arguments.blueprint),
    )
    name = arguments.name or report.generate_instance_name(session, arguments.blueprint)
    return session.cluster.create(
        instances.manifest(session.namespace, arguments.blueprint, name, arguments.parameters)
    )


async def _send_message(
    backend: PersonKnowledge, arguments: SendMessageArguments
) -> SendMessageAnswer:
    session = backend.session
    body = await _in_thread(_create_mission, session, arguments)
    return SendMessageAnswer(namespace=session.namespace, mission=body["metadata"]["name"])


def _create_mission(session: Session, arguments: SendMessageArguments) -> dict[str, Any]:
    """Create a mission for cells that run already: the operator sends them its objective."""
    spec: dict[str, Any] = {"objective": arguments.message, "completion": {"maxAttempts": 1}}
    if arguments.formation:
        target = arguments.formation
        spec |= {"formationRef": target, **_entrypoint(session, target, arguments.cell or None)}
    elif arguments.cell:
        target = arguments.cell
        cell = Cell.from_dict(resource_access.get(session, "Cell", target))
        _require_agent(f"Cell/{session.namespace}/{target}", serves_a2a=cell.spec.serves_a2a)
        spec["cellRef"] = target
    else:
        raise errors.UsageError("name the formation or the cell that gets the message")
    name = f"{target[:_MAX_NAME_PART].rstrip('-.')}-{session.environment.suffix()}"
    metadata = {"name": name, "namespace": session.namespace}
    manifest = {"apiVersion": base.API_VERSION, "kind": "Mission", "metadata": metadata}
    return session.cluster.create({**manifest, "spec": spec})


def _entrypoint(session: Session, name: str, cell: str | None) -> dict[str, Any]:
    formation = Formation.from_dict(resource_access.get(session, "Formation", name))
    short_name = topology.entrypoint_cell(formation.spec, cell)
    template = topology.template_of(formation.spec, short_name) if short_name else None
    reference = f"Formation/{session.namespace}/{name}"
    if template is None:
        names = ", ".join(candidate.name for candidate in formation.spec.cells)
        raise errors.UsageError(f"{reference} has no cell {cell!r}; its templates are {names}")
    spec = next(candidate.spec for candidate in formation.spec.cells if candidate.name == template)
    _require_agent(f"cell {short_name} of {reference}", serves_a2a=spec.serves_a2a)
    return {"entrypoint": {"cell": short_name}} if cell else {}


def _require_agent(reference: str, *, serves_a2a: bool) -> None:
    if not serves_a2a:
        raise errors.UsageError(
            f"{reference} takes no messages: only an agent in mode Service does. Launch its"
            " blueprint instead"
        )


async def _in_thread(call: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.to_thread(functools.partial(call, *arguments))


def _bounded(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _render(name: str) -> Callable[[ToolAnswer], str]:
    """Return a function that renders an answer as one delimited JSON document."""

    def render(answer: ToolAnswer) -> str:
        text = answer.model_dump_json(exclude={"untrusted", "notice"}, exclude_none=True)
        return framing.frame([framing.element(name, {}, text)])

    return render


_READS = (
    Tool(
        name="kais_list_blueprints",
        title="List blueprints",
        description="List the teams that can be launched, with their parameters.",
        arguments=NoArguments,
        answer=BlueprintsAnswer,
        run=_list_blueprints,
        render=_render("blueprints"),
        effect="read",
        cost={},
    ),
    Tool(
        name="kais_mission_status",
        title="Show missions",
        description="Show the phase, attempt and outcome of a mission, or of all missions.",
        arguments=MissionStatusArguments,
        answer=MissionsAnswer,
        run=_mission_status,
        render=_render("missions"),
        effect="read",
        cost={},
    ),
    Tool(
        name="kais_get_results",
        title="Show the result of a mission",
        description="Show what a mission produced, and the result of each of its checks.",
        arguments=MissionArguments,
        answer=ResultsAnswer,
        run=_get_results,
        render=_render("results"),
        effect="read",
        cost={},
    ),
    Tool(
        name="kais_recall",
        title="Recall the facts of a team",
        description="Find what the runs of a blueprint learned, best first.",
        arguments=TeamRecallArguments,
        answer=RecallAnswer,
        run=_recall,
        render=knowledge_tools.render_recall,
        effect="read",
        cost={},
    ),
)
_WORK = (
    Tool(
        name="kais_launch_team",
        title="Launch a team",
        description=(
            "Launch a blueprint as a team with a mission. It runs code and can cost money; ask the"
            " person first. Follow it with kais_mission_status."
        ),
        arguments=LaunchArguments,
        answer=LaunchAnswer,
        run=_launch_team,
        render=lambda answer: f"launched: BlueprintInstance/{answer.namespace}/{answer.instance}",
        effect="change",
        cost={},
    ),
    Tool(
        name="kais_send_message",
        title="Send a message to a team",
        description=(
            "Send a message to a team that is running, or to one of its cells, as a mission. It"
            " can cost money; ask the person first. kais_get_results has the answer."
        ),
        arguments=SendMessageArguments,
        answer=SendMessageAnswer,
        run=_send_message,
        render=lambda answer: f"sent as Mission/{answer.namespace}/{answer.mission}",
        effect="change",
        cost={},
    ),
)


def tools(*, can_launch: bool) -> Sequence[Tool]:
    """Return the tools of the set."""
    return (*_READS, *_WORK) if can_launch else _READS
