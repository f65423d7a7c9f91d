"""A store that ranks without conversations, and what its receipts and replays say."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import pytest

from knowledge_client.models import Recalled, RecallIn
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import IdempotencyKey
from knowledge_service.search import ranker_version
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.ranking import conversations
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall, replay
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import PERSON, TEAM, new_fact

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)
READER = Principal("ada", "human", TEAM)
RANKER_CONFIG = RankerConfig(use_conversations=False)
ROOM = str(Path(conversations.__file__).parent)


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore | SqliteStore]:
    memory_store = (
        MemoryStore(lambda: EARLIER, ranker_config=RANKER_CONFIG)
        if request.param == "fake"
        else SqliteStore(tmp_path / "knowledge.db", lambda: EARLIER, ranker_config=RANKER_CONFIG)
    )
    memory_store.remember(
        [
            new_fact("Anna: which parrot did you see by the harbour?", tags=("session_1",)),
            new_fact("Bruno: a green one, with a long tail and a loud voice", tags=("session_1",)),
            new_fact("[7 May 2023] Bruno: the parrot is gone.", tags=("session_2",)),
            new_fact("parrots live by the harbour"),
        ],
        actor=PERSON,
    )
    yield memory_store
    memory_store.close()


def recall_parrot(
    store: MemoryStore | SqliteStore, idempotency_key: IdempotencyKey | None = None
) -> Recalled:
    body = RecallIn(query="Which parrot did Bruno see on 7 May 2023?", limit=10)
    return recall.recall(store, READER, body, now=NOW, idempotency_key=idempotency_key)


@contextlib.contextmanager
def calls_into(folder: str) -> Iterator[set[str]]:
    """Collect the functions of a folder's modules that are called."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            called.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


def test_no_code_of_conversations_runs(store: MemoryStore | SqliteStore) -> None:
    with calls_into(ROOM) as called:
        assert recall_parrot(store).facts
    assert called == set()
    store.ranker_config = RankerConfig()
    with calls_into(ROOM) as called:
        assert recall_parrot(store).facts
    assert {"group_by_conversation", "order_turns", "is_speaker", "is_asking", "is_short"} <= called


def test_turns_that_share_no_term_are_found_by_conversations_alone(
    store: MemoryStore | SqliteStore,
) -> None:
    answer = "Bruno: a green one, with a long tail and a loud voice"
    body = RecallIn(query="parrot harbour", limit=10)
    for config, is_found in ((RANKER_CONFIG, False), (RankerConfig(), True)):
        store.ranker_config = config
        result = recall.recall(store, READER, body, now=NOW, idempotency_key=None)
        assert (answer in [fact.content for fact in result.facts]) is is_found


def test_replay_says_that_the_switch_is_another(store: MemoryStore | SqliteStore) -> None:
    result = recall_parrot(store, IdempotencyKey("ada", "key", "body"))
    message = f"{ranker_version.RANKER}-no-conversations"
    assert result.ranker == message
    assert result.receipt is not None
    same_replay_result = replay.replay(store, READER, result.receipt)
    assert (same_replay_result.equal, same_replay_result.reasons) == (True, ())
    store.ranker_config = RankerConfig()
    other_replay_result = replay.replay(store, READER, result.receipt)
    assert not other_replay_result.equal
    assert (
        f"the ranker was {message} and is now {ranker_version.RANKER}"
        in other_replay_result.reasons
    )


def test_equal_texts_of_two_sessions_are_one_result(store: MemoryStore | SqliteStore) -> None:
    text = "the ferry across the bay is closed for the whole winter after the storm"
    store.remember(
        [new_fact(text, tags=("session_1",)), new_fact(f"{text} again", tags=("session_2",))],
        actor=PERSON,
    )
    for config, count in ((RANKER_CONFIG, 1), (RankerConfig(), 2)):
        store.ranker_config = config
        body = RecallIn(query="ferry across the bay", limit=10)
        result = recall.recall(store, READER, body, now=NOW, idempotency_key=None)
        assert sum("ferry" in fact.content for fact in result.facts) == count
