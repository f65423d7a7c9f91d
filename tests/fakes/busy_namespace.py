"""The objects that users wrote in a namespace with a Mission in each state of its run."""

from __future__ import annotations

from typing import Any

from kais import labels
from kais_operator.planning.plan import Body
from tests.fakes import blueprints, services, teams

_CHECK = {"name": "built", "type": "command", "argv": ["/app/check"]}
_REVIEW = {"enabled": True, "reviewer": "ana", "criteria": "Is the cause named?"}


def objects(*, round_attempts: int | None = None) -> list[Body]:
    """Return the objects; `round_attempts` bounds the attempts of Missions of service cells."""
    completion: dict[str, Any] = {"checks": [_CHECK]}
    if round_attempts is not None:
        completion["maxAttempts"] = round_attempts
    checked = {"formationRef": None, "completion": completion}
    return [
        blueprints.blueprint(),
        blueprints.instance("use-ended"),
        teams.team(workspace={"size": "1Gi"}, topology={"type": "star", "hub": "lead"}),
        teams.scope(retention={"maxFacts": 50}),
        services.lone_service(),
        services.lone_service("duo"),
        teams.lone_cell("idle"),
        teams.work("waiting", formationRef="absent"),
        teams.work("running"),
        teams.work("second-attempt"),
        teams.work("between-jobs"),
        teams.work("succeeded"),
        teams.work("extracting"),
        teams.work("failed", completion={"maxAttempts": 1}),
        teams.work("aborted"),
        teams.work("reviewed", completion={"review": _REVIEW}),
        teams.work("checked", completion={"checks": [_CHECK]}),
        teams.work("again"),
        teams.work("suspended", metadata={"annotations": {labels.RECONCILE: "suspended"}}),
        teams.work("round", cellRef="solo", **checked),
        teams.work("between-rounds", cellRef="duo", **checked),
    ]
