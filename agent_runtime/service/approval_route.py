"""The route that takes decisions about tool calls: from the operator, or a person with a ticket."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_runtime.approvals import Approvals, DecisionRefused
from agent_runtime.tickets import Caller
from kais import a2a
from kais import approvals as decisions


def create_route(approvals: Approvals) -> Route:
    """Return the route of the decisions."""

    async def decide(request: Request) -> Response:
        caller: Caller = request.user.caller
        if caller.role == "cell":
            return _problem(403, f"{caller.name} is a cell: an approval comes from a person")
        body = await request.body()
        try:
            value = json.loads(body)
            by = str(value.get("by") or "") if caller.role == "operator" else caller.name
            decision = decisions.parse_decision(body.decode(), by)
        except (ValueError, AttributeError, RecursionError) as exc:
            return _problem(400, f"the decision cannot be read: {exc}")
        try:
            return JSONResponse(approvals.decide(decision).dump())
        except DecisionRefused as exc:
            return _problem(exc.status, str(exc))

    return Route(a2a.APPROVALS_PATH, decide, methods=["POST"])


def _problem(status: int, detail: str) -> Response:
    problem = {"status": status, "detail": detail}
    return JSONResponse(problem, status, media_type="application/problem+json")
