"""Fields of a Deployment that exclude each other, as the API server's validation refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kais_operator.planning.plan import Body

_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_HANDLERS = frozenset({"exec", "grpc", "httpGet", "tcpSocket"})


def problem(live: Body, applied: Body, previous: Body | None) -> str | None:
    """Say which fields an apply would leave beside their alternatives; None when there are none.

    An apply removes what was applied `before`. What else stands in `live` belongs to others.
    """
    if applied["kind"] != "Deployment":
        return None
    specs = [(body or {}).get("spec") or {} for body in (live, applied, previous)]
    return next(_problems(*specs), None)


def _problems(live: Body, applied: Body, previous: Body) -> Iterator[str]:
    strategies = [spec.get("strategy") or {} for spec in (live, applied, previous)]
    merged = _merged(*strategies)
    if merged.get("type") == "Recreate" and "rollingUpdate" in merged:
        yield "spec.strategy.rollingUpdate: Forbidden: may not be specified when type is Recreate"
    pods = [_pod(spec) for spec in (live, applied, previous)]
    for name, volume in _merged_items([pod.get("volumes") for pod in pods]):
        if len(volume) > len(("name", "its source")):
            yield f"spec.template.spec.volumes[{name}]: may not specify more than 1 volume type"
    for container in pods[1].get("containers") or ():
        sides = [_named(pod.get("containers"), container["name"]) for pod in pods]
        yield from _container_problems(sides)


def _container_problems(sides: Sequence[Body]) -> Iterator[str]:
    for name, variable in _merged_items([side.get("env") for side in sides]):
        if variable.get("value") and "valueFrom" in variable:
            yield f"env[{name}].valueFrom: may not be specified when `value` is not empty"
    for probe in _PROBES:
        merged = _merged(*(side.get(probe) or {} for side in sides))
        if len(_HANDLERS & merged.keys()) > 1:
            yield f"{probe}: may not specify more than 1 handler type"


def _pod(spec: Body) -> Body:
    pod: Body = (spec.get("template") or {}).get("spec") or {}
    return pod


def _named(items: Any, name: str) -> Body:
    return next((item for item in items or () if item["name"] == name), {})


def _merged_items(sides: Sequence[Any]) -> Iterator[tuple[str, Body]]:
    for item in sides[1] or ():
        live, initial_state = (_named(side, item["name"]) for side in (sides[0], sides[2]))
        yield item["name"], _merged(live, item, initial_state)


def _merged(
    live: Mapping[str, Any], applied: Mapping[str, Any], previous: Mapping[str, Any]
) -> Body:
    others = {key: value for key, value in live.items() if key not in previous}
    return {**others, **applied}
