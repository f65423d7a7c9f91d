"""Compile and render templates, and turn an exceeded limit into a finding.

A template that does not end, or grows too large, is a user's mistake like one that does not parse,
so a condition reports it. Only a timeout or a dead worker may be the machine's fault; these are
tried again later. If no worker can be reached, nothing is known of the template, and the summary
condition says so.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from datetime import timedelta

from kais.blueprint_rendering import CompileReport, Rendering, Violations
from kais.conditions import Reason
from kais.resources import blueprint_revision
from kais.resources.blueprint import TemplateSpec
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator import errors
from kais_operator.controllers.base import Observation
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.controllers.blueprint_instance.decide import instance_run
from kais_operator.planning.plan import ObjectRef
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World


def reporting_unavailable(
    observe: Callable[[World, ObjectRef], Awaitable[Observation | None]],
) -> Callable[[World, ObjectRef], Awaitable[Observation | None]]:
    """Wrap an observation that renders: an unavailable renderer is reported on the object.

    The wrapped function raises RendererUnavailable if the object is gone or being deleted.
    """

    @functools.wraps(observe)
    async def observe_or_report(world: World, ref: ObjectRef) -> Observation | None:
        try:
            return await observe(world, ref)
        except errors.RendererUnavailable as exc:
            body = await world.cluster.get(ref)
            if body is None or body["metadata"].get("deletionTimestamp"):
                raise
            problem = f"{exc}; its template is compiled and rendered as soon as it does"
            reason = Reason.RENDERER_UNAVAILABLE
            return Observation(body, InvalidObject(body, problem, reason))

    return observe_or_report


async def verdict_of(world: World, spec: TemplateSpec, *, namespace: str) -> Verdict:
    """Compile the template of a Blueprint or revision."""
    template = blueprint_revision.template_of(spec)
    try:
        report: CompileReport = await world.renderer.compile(template, namespace=namespace)
    except errors.RenderingFailed as exc:
        return Verdict(False, Reason.TEMPLATE_ERROR, str(exc), retry_after=_retry_after(exc))
    return Verdict(report.is_good, report.reason, report.message)


async def rendering_of(
    world: World, instance: BlueprintInstance, revision: BlueprintRevision
) -> tuple[Rendering, timedelta | None]:
    """Render a revision for an instance.

    Returns:
        The rendering, and the delay until another try if that may help.
    """
    try:
        rendering: Rendering = await world.renderer.render(
            blueprint_revision.template_of(revision.spec),
            instance.spec.parameters,
            blueprint=revision.spec.blueprint,
            revision=revision.spec.revision,
            instance=instance.metadata.name,
            namespace=instance.metadata.namespace,
            previous=instance_run.fixed_parameters(instance),
        )
    except errors.RenderingFailed as exc:
        return Violations(Reason.RENDER_FAILED, (str(exc),)), _retry_after(exc)
    return rendering, None


def _retry_after(failed: errors.RenderingFailed) -> timedelta | None:
    return timedelta(seconds=failed.retry_after_s) if failed.cap != "memory" else None
