"""What is decided about an outbox, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kais import labels
from kais.outcomes import Outcome
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.controllers.outbox.decide.outbox import OutboxObserved
from kais_operator.planning.plan import Body, CloseRun, RecordEpisodes, RequestExtraction
from knowledge_client import models
from tests.fakes.decisions import NOW, PlanSummary, stored, summarize

RUN_ID = "run-1"
CLOSE = CloseRun(RUN_ID, Outcome.FAILED, NOW, "demo", "doctor")
EPISODE = models.EpisodeIn(type="error", content="the pod was evicted")
EPISODES = RecordEpisodes(RUN_ID, "demo", (EPISODE,))
EXTRACTION = RequestExtraction(RUN_ID, "demo")
RUN = models.RunIn(
    namespace="demo", mission="doctor", scope="realm:demo", objective="explain", started_at=NOW
)


def holding(*calls: Body, **metadata: Any) -> OutboxObserved:
    return OutboxObserved(stored(outbox.body("kais-system", key="key", calls=calls), **metadata))


REMOVAL = ("SetAside ConfigMap/kais-outbox-key", "Delete ConfigMap/kais-outbox-key")

CASES: dict[str, tuple[OutboxObserved, tuple[str, ...]]] = {
    "an outbox without a call is removed": (holding(), REMOVAL),
    "the opening of a run is sent": (
        holding(outbox.put_run(RUN_ID, RUN)),
        ("PutRun open", *REMOVAL),
    ),
    "the end of a run is sent": (
        holding(outbox.close_run(CLOSE)),
        ("CloseRun Failed", *REMOVAL),
    ),
    "episodes are sent": (
        holding(outbox.record_episodes(EPISODES)),
        ("RecordEpisodes run-1", *REMOVAL),
    ),
    "the request for an extraction is sent": (
        holding(outbox.request_extraction(EXTRACTION)),
        ("RequestExtraction run-1", *REMOVAL),
    ),
    "the deletion of a scope is sent": (
        holding(outbox.delete_scope("realm:demo/formation:team")),
        ("DeleteScope realm:demo/formation:team", *REMOVAL),
    ),
    "calls are sent in the order in which they were missed": (
        holding(
            outbox.put_run(RUN_ID, RUN),
            outbox.record_episodes(EPISODES),
            outbox.close_run(CLOSE),
            outbox.request_extraction(EXTRACTION),
        ),
        (
            "PutRun open",
            "RecordEpisodes run-1",
            "CloseRun Failed",
            "RequestExtraction run-1",
            *REMOVAL,
        ),
    ),
    "an outbox whose call was refused for good is left alone": (
        holding(outbox.close_run(CLOSE), annotations={labels.REFUSED: "no such scope"}),
        (),
    ),
    "an outbox with another annotation is sent": (
        holding(outbox.close_run(CLOSE), annotations={"team/note": "look at it"}),
        ("CloseRun Failed", *REMOVAL),
    ),
    "an outbox that is being deleted is left alone": (
        holding(outbox.close_run(CLOSE), deletionTimestamp=NOW.isoformat()),
        (),
    ),
}


@pytest.mark.parametrize(("observed", "actions"), CASES.values(), ids=CASES)
def test_an_outbox(observed: OutboxObserved, actions: tuple[str, ...]) -> None:
    plan = outbox.decide_outbox(observed, NOW)
    assert summarize(plan) == PlanSummary(actions)


@pytest.mark.parametrize(
    "action", [CLOSE, EPISODES, EXTRACTION], ids=lambda action: type(action).__name__
)
def test_a_call_is_sent_as_it_was_written_down(
    action: CloseRun | RecordEpisodes | RequestExtraction,
) -> None:
    match action:
        case CloseRun():
            call = outbox.close_run(action)
        case RecordEpisodes():
            call = outbox.record_episodes(action)
        case RequestExtraction():
            call = outbox.request_extraction(action)
    assert outbox.decide_outbox(holding(call), NOW).actions[0] == action


def test_an_outbox_is_removed_only_after_its_calls() -> None:
    *_, deletion = outbox.decide_outbox(holding(outbox.close_run(CLOSE)), NOW).actions
    assert getattr(deletion, "waits_for_knowledge", None) is True
