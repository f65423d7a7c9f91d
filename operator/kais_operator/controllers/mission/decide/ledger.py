"""What the store is told of a run: that it began, what was seen of it, how it ended.

Every call may be repeated: a run merges, episodes are keyed by their content, extraction happens
once per run. What was told is known from the ledger itself, else from this process's memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from kais import labels, scopes
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.mission.decide import entrypoint as entries
from kais_operator.controllers.mission.decide import knowledge_injection
from kais_operator.controllers.mission.decide.attempt_summary import Try
from kais_operator.controllers.mission.decide.attempts import State
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    is_held,
    run_id_of,
)
from kais_operator.controllers.mission.decide.outcome_annotation import Ending
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import (
    Action,
    Body,
    Create,
    ObjectRef,
    PatchMetadata,
    PutRun,
    RecordEpisodes,
    RefreshStatistics,
    RequestExtraction,
)
from knowledge_client import models

PATIENCE = timedelta(seconds=30)
"""How long the deletion of a mission waits for the store before its calls go to the outbox.

It does not matter why the store has not taken them: a namespace waits for the mission.
"""
TELL_AGAIN = timedelta(hours=1)
"""When what the store refused for good is told once more."""
_CONTENT_LIMIT = 8192
_SIGNATURE_LIMIT = 512


@dataclass(frozen=True)
class Recording:
    """How far a run's end has come in the store.

    Attributes:
        is_closed: the ledger has the run with its outcome.
        is_extracting: facts are to be drawn from it.
        is_accepted: the extraction is taken over, or none is wanted.
    """

    is_closed: bool
    is_extracting: bool
    is_accepted: bool

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to tell."""
        return self.is_closed and self.is_accepted


def state_of(observed: MissionObserved) -> Recording:
    """Say how far the end of a run has come in the store."""
    ledger = observed.ledger
    has_ended = ledger.run is not None and ledger.run.outcome is not None
    is_closed = has_ended if ledger.run is not None else ledger.is_closed
    settings = cell_identity.settings_for(_scope(observed), observed.declared)
    is_extracting = knowledge_injection.is_extracting(observed, settings)
    is_accepted = ledger.extraction is not None or ledger.is_extraction_accepted
    return Recording(is_closed, is_extracting, is_accepted or not is_extracting)


def opening(observed: MissionObserved, *, run_id: str) -> tuple[Action, ...]:
    """Choose the calls that open a run in the ledger; none when this process did so, or tried."""
    if observed.ledger.is_opened or observed.ledger.refusal is not None:
        return ()
    return _opening(observed, run_id)


def _opening(observed: MissionObserved, run_id: str) -> tuple[Action, ...]:
    run = run_in(observed, None)
    return (PutRun(run_id, run), *_refresh(observed, soon=False))


def closing(observed: MissionObserved, ending: Ending, *, run_id: str) -> tuple[Action, ...]:
    """Choose the calls that record a run's end, in order; none while the store refuses them."""
    return () if is_refused(observed) else _closing(observed, ending, run_id)


def is_refused(observed: MissionObserved) -> bool:
    """Whether something is left to tell that the store refuses for good."""
    return observed.ledger.refusal is not None and not state_of(observed).is_done


def _closing(observed: MissionObserved, ending: Ending, run_id: str) -> tuple[Action, ...]:
    state = state_of(observed)
    namespace = observed.mission.metadata.namespace
    actions: list[Action] = []
    if not state.is_closed:
        if not observed.ledger.is_opened:
            actions += _opening(observed, run_id)
        actions.append(RecordEpisodes(run_id, namespace, episodes(observed, ending)))
        actions.append(PutRun(run_id, run_in(observed, ending)))
        actions += _refresh(observed, soon=True)
    if not state.is_accepted:
        actions.append(RequestExtraction(run_id, namespace, _most_facts(observed)))
    return tuple(actions)


def released(observed: MissionObserved) -> PatchMetadata:
    """Let the object go: nothing is left to tell, or it is written down."""
    metadata = observed.mission.metadata
    return PatchMetadata(
        ObjectRef(observed.mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        finalizers=tuple(f for f in metadata.finalizers if f != labels.FINALIZER),
    )


def must_write_down(observed: MissionObserved, now: datetime) -> bool:
    """Whether a deletion has waited for the store long enough."""
    asked_at = observed.mission.metadata.deletion_timestamp
    if asked_at is None or not is_held(observed.mission) or state_of(observed).is_done:
        return False
    if is_refused(observed):
        return True
    return now - asked_at >= PATIENCE


def written_down(observed: MissionObserved, ending: Ending, *, run_id: str) -> tuple[Action, ...]:
    """Choose the writes that keep the calls in the outbox and let the object go."""
    calls: list[Body] = []
    for action in _closing(observed, ending, run_id):
        if isinstance(action, PutRun):
            calls.append(outbox.put_run(run_id, action.run))
        elif isinstance(action, RecordEpisodes):
            calls.append(outbox.record_episodes(action))
        elif isinstance(action, RequestExtraction):
            calls.append(outbox.request_extraction(action))
    key = outbox.key_of(observed.mission.metadata.namespace, run_id)
    kept = outbox.body(observed.operator_namespace, key=key, calls=calls)
    return (Create(kept), released(observed))


def run_in(observed: MissionObserved, ending: Ending | None) -> models.RunIn:
    """Describe the run to the ledger, with its end when there is one.

    The scope is part of a run's identity, so the ledger's word about it is repeated.
    """
    mission = observed.mission
    metadata = mission.metadata
    given = {
        "kind": "mission",
        "namespace": metadata.namespace,
        "scope": str(_scope(observed)),
        "mission": metadata.name,
        "objective": mission.spec.objective[:_CONTENT_LIMIT],
        "arm": knowledge_injection.arm_of(mission),
        **_use(observed),
    }
    if ending is not None:
        given |= {
            "outcome": ending.outcome.value,
            "attempts": ending.attempt,
            "started_at": ending.started_at,
            "finished_at": ending.finished_at,
            "counters": {} if ending.injected is None else {"injected": ending.injected},
        }
    return models.RunIn.model_validate({k: v for k, v in given.items() if v is not None})


def blueprint_of(observed: MissionObserved) -> str | None:
    """Name the Blueprint that a mission's run counts for; None for a mission made by hand."""
    if observed.instance is not None:
        return observed.instance.spec.blueprint_ref.name
    return observed.mission.metadata.labels.get(labels.BLUEPRINT)


def _scope(observed: MissionObserved) -> scopes.Scope:
    """Give the run's scope: the ledger's word, once it has one, else where the team stands."""
    known = observed.ledger.run
    if known is not None:
        return scopes.Scope.parse(known.scope)
    return entries.run_scope(observed.mission, observed.team)


def _use(observed: MissionObserved) -> Body:
    """Name the use that the run belongs to, as far as the ledger does not know it."""
    carried = observed.mission.metadata.labels
    revision = annotation_values.digits(carried.get(labels.REVISION))
    use: Body = {
        "blueprint": blueprint_of(observed),
        "revision": revision or None,
        "instance": carried.get(labels.INSTANCE),
    }
    if observed.instance is not None:
        use["instance"] = observed.instance.metadata.name
        use["parameters"] = _values(observed)
        use["parameters_hash"] = observed.instance.status.parameters_hash
    known = observed.ledger.run
    return use if known is None else {k: v for k, v in use.items() if getattr(known, k) is None}


def _values(observed: MissionObserved) -> Body:
    """Give the values of the run, defaults included; a use of an older version has its own only."""
    text = observed.mission.metadata.annotations.get(labels.PARAMETERS)
    own = observed.instance.spec.parameters if observed.instance is not None else {}
    try:
        values = annotation_values.parse(text) if text is not None else own
    except ValueError:
        return own  # somebody edited it
    return values if isinstance(values, dict) else own


def episodes(observed: MissionObserved, ending: Ending) -> tuple[models.EpisodeIn, ...]:
    """Tell what was seen of each attempt, and of the run when there was none."""
    metadata = observed.mission.metadata
    ref = models.Ref(type="mission", id=f"{metadata.namespace}/{metadata.name}")
    told = [_episode(one, ref) for one in ending.tries if one.is_over]
    if not told or ending.outcome.value not in ("Succeeded", "Failed"):
        told.append(
            models.EpisodeIn(
                attempt=max(1, ending.attempt),
                type="decision",
                content=f"the run ended {ending.outcome}: {ending.words}"[:_CONTENT_LIMIT],
                refs=(ref,),
                at=ending.finished_at,
            )
        )
    return tuple(told)


def _episode(one: Try, ref: models.Ref) -> models.EpisodeIn:
    said = f": {one.message}" if one.message else ""
    content = f"attempt {one.number}: {one.words}{said}"[:_CONTENT_LIMIT]
    if one.state is State.SUCCEEDED:
        return models.EpisodeIn(
            attempt=one.number, type="message", content=content, refs=(ref,), at=one.finished_at
        )
    return models.EpisodeIn(
        attempt=one.number,
        type="error",
        content=content,
        error_signature=_signature(one),
        refs=(ref,),
        at=one.finished_at,
    )


# How a line of JSON begins, or ends an object that began above it.
_RESULT = re.compile(r"\{\s*(?:\"|\}|$)|\[\s*(?:[\"{\[\d\]]|$)|\"[^\"]*\"\s*:|[\]}]")


def _signature(one: Try) -> str | None:
    """Name an error so that its like is found again: the task's last line, else our words.

    A result in JSON names nothing, and neither does the state of the attempt.
    """
    is_tasks = one.state is not State.FAILED or one.exit_code != 0
    lines = [line.strip() for line in one.message.splitlines() if line.strip() and is_tasks]
    is_result = bool(lines) and _RESULT.match(lines[-1]) is not None
    words = lines[-1] if lines and not is_result else one.words
    return words[:_SIGNATURE_LIMIT] or None


def _most_facts(observed: MissionObserved) -> int:
    return knowledge_injection.most_facts(
        cell_identity.settings_for(_scope(observed), observed.declared)
    )


def learnt(observed: MissionObserved) -> tuple[Action, ...]:
    """Have the scopes counted again, once, when the facts of a run are there."""
    extraction, namespace = observed.ledger.extraction, observed.mission.metadata.namespace
    if extraction is None or extraction.state != "done" or observed.ledger.is_extraction_counted:
        return ()
    return (RefreshStatistics(namespace, None, extracted=run_id_of(observed.mission)),)


def _refresh(observed: MissionObserved, *, soon: bool) -> tuple[Action, ...]:
    blueprint = blueprint_of(observed)
    if blueprint is None and not soon:
        return ()
    return (RefreshStatistics(observed.mission.metadata.namespace, blueprint, soon=soon),)
