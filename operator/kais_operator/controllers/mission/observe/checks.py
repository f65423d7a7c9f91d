"""Read the output of an attempt's checks, and match their patterns.

A log is read once, for a check whose process has ended and whose result needs the log; results are
recorded on the Mission. Patterns come from users and run in processes that can be killed. While no
renderer answers, checks with patterns are not evaluated, and the Mission continues otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from kais.resources.cell import Cell
from kais.resources.check import Check
from kais_operator import errors
from kais_operator.controllers.cell.decide import base_pod_spec as pods_of_cells
from kais_operator.controllers.mission.decide import (
    attempt_checks,
    check_results,
    entrypoint,
    service_check_attempts,
)
from kais_operator.controllers.mission.decide.attempt_checks import OutputToRead
from kais_operator.controllers.mission.decide.check_results import Output
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    RunningContainer,
    exec_key,
    ref_of,
)
from kais_operator.planning.container_results import Process
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World

_STOPPED = {
    "time": "its pattern is too slow and was stopped; write one that does not backtrack",
    "memory": "matching its pattern takes too much memory; print less, or write a simpler one",
    "worker": "its pattern ended the matching process, twice",
}


async def with_checks(world: World, observed: MissionObserved, now: datetime) -> MissionObserved:
    """Add the output of the latest attempt's checks, as far as it is needed now."""
    if not observed.mission.spec.completion.checks:
        return observed
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    if isinstance(cell, Cell) and service_check_attempts.is_service_attempt(cell):
        return await _with_commands(world, observed)
    outputs_to_read = attempt_checks.outputs_to_read(observed, now)
    namespace = observed.mission.metadata.namespace
    outputs: dict[str, Output] = {}
    for request in outputs_to_read:
        try:
            output = await _output(world, request, namespace)
        except errors.RendererUnavailable as exc:
            observed = replace(observed, renderer_problem=str(exc))
            continue
        if output is None:
            observed = replace(observed, is_reading=True)
        else:
            outputs[request.check.name] = output
    return replace(observed, outputs=outputs)


async def _with_commands(world: World, observed: MissionObserved) -> MissionObserved:
    execs: dict[str, Process] = {}
    outputs: dict[str, Output] = {}
    number = observed.history.latest.number if observed.history.latest is not None else 0
    for check in attempt_checks.commands_to_read(observed):
        key = exec_key(observed.mission, number, check.name)
        result = world.containers.result_of(ref_of(observed.mission), key)
        if result is None:
            continue
        process, text = result
        execs[check.name] = process
        if process.ended_at is not None and check_results.needs_output(check):
            namespace = observed.mission.metadata.namespace
            try:
                outputs[check.name] = await _match_patterns(world, check, text, namespace)
            except errors.RendererUnavailable as exc:
                observed = replace(observed, renderer_problem=str(exc))
    for request in attempt_checks.answers_to_match(observed):
        namespace = observed.mission.metadata.namespace
        try:
            outputs[request.check.name] = await _match_patterns(
                world, request.check, request.text, namespace
            )
        except errors.RendererUnavailable as exc:
            observed = replace(observed, renderer_problem=str(exc))
    return replace(observed, execs=execs, outputs=outputs)


def running_container(pods: Sequence[Body]) -> RunningContainer | None:
    """Return the cell's container in a ready pod; None without one."""
    for pod in pods:
        pod_conditions = (pod.get("status") or {}).get("conditions") or ()
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod_conditions)
        metadata = pod["metadata"]
        if is_ready and not metadata.get("deletionTimestamp"):
            ref = ObjectRef("Pod", metadata["namespace"], metadata["name"])
            return RunningContainer(ref, pods_of_cells.SERVICE, metadata["uid"])
    return None


async def _output(world: World, request: OutputToRead, namespace: str) -> Output | None:
    """Read what a check needs and match its patterns; None while the log is being read."""
    if request.pod is None:
        return await _match_patterns(world, request.check, request.text, namespace)
    log = world.containers.read_log(request.pod, request.container)
    if log is None:
        return None
    if log.problem is not None:
        return Output(problem=log.problem)
    return await _match_patterns(world, request.check, log.text, namespace)


async def _match_patterns(world: World, check: Check, text: str, namespace: str) -> Output:
    """Match a check's patterns; in a cell's answer the case is ignored.

    Raises:
        RendererUnavailable: No worker can match the patterns; the check waits.
    """
    find = functools.partial(
        world.renderer.find, ignore_case=check_results.is_response(check), namespace=namespace
    )
    try:
        fails = succeeds = None
        if check.fail_pattern is not None:
            fails = await find(check.fail_pattern, text)
        if check.success_pattern is not None and not fails:
            succeeds = await find(check.success_pattern, text)
    except ValueError as exc:
        return Output(text, problem=str(exc))
    except errors.RenderingFailed as exc:
        return Output(text, problem=_STOPPED[exc.cap])
    return Output(text, fails, succeeds)
