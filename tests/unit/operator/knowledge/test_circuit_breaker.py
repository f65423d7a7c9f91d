"""A service that hangs holds few reconciles, and one that answers again is called at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from kais_operator.knowledge import client
from kais_operator.knowledge.client import MonitoredKnowledge
from kais_operator.knowledge.sync_loop import KnowledgeSync
from kais_operator.knowledge.sync_state import KnowledgeSyncState
from kais_operator.manager.workqueue import Backoff, WorkQueue
from knowledge_client import errors, models
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeKnowledge

pytestmark = pytest.mark.simulated_time
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORKERS = 16
RUN = models.RunIn(namespace="demo", scope="realm:demo")
PRINCIPAL = models.PrincipalIn(
    name="demo/lead-0",
    type="agent",
    subject=models.Subject(username="system:serviceaccount:demo:lead-0", uid="u"),
    home="realm:demo",
)
Call = Callable[[], Awaitable[object]]


class LoopClock(FakeClock):
    """The time of the event loop."""

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Hanging(FakeKnowledge):
    """A service of which calls hang while their names are in `hangs`, or all with `*`."""

    def __init__(self) -> None:
        super().__init__(clock=LoopClock())
        self.hangs: set[str] = set()
        self.waited = 0

    async def _wait(self, name: str) -> None:
        if self.hangs & {name, "*"}:
            self.waited += 1
            await asyncio.sleep(client.TIMEOUT_S)
            error = errors.KnowledgeUnavailable(f"{name}: no answer from http://k (timeout)")
            raise error from httpx.ReadTimeout("timeout")

    async def whoami(self) -> models.WhoAmI:
        await self._wait("whoami")
        return await super().whoami()

    async def put_principal(self, principal: models.PrincipalIn) -> models.PrincipalIn:
        await self._wait("put_principal")
        return await super().put_principal(principal)

    async def put_run(self, run_id: str, run: models.RunIn) -> models.Run:
        await self._wait("put_run")
        return await super().put_run(run_id, run)

    async def get_run(self, run_id: str, *, namespace: str | None = None) -> models.RunDetail:
        await self._wait("get_run")
        return await super().get_run(run_id, namespace=namespace)

    async def start_extraction(self, request: models.ExtractionIn) -> models.Extraction:
        await self._wait("start_extraction")
        return await super().start_extraction(request)

    async def stats_batch(self, request: models.StatsIn) -> models.Stats:
        await self._wait("stats_batch")
        return await super().stats_batch(request)


@pytest.fixture
def service() -> Hanging:
    return Hanging()


@pytest.fixture
def sync_state(service: Hanging) -> KnowledgeSyncState:
    return KnowledgeSyncState(service.clock)


@pytest.fixture
def knowledge(service: Hanging, sync_state: KnowledgeSyncState) -> MonitoredKnowledge:
    return MonitoredKnowledge(service, sync_state, service.clock)


@pytest.fixture
async def sync(
    service: Hanging, knowledge: MonitoredKnowledge, sync_state: KnowledgeSyncState
) -> KnowledgeSync:
    async def ignore(*_: object) -> None:
        pass

    return KnowledgeSync(
        knowledge,
        sync_state,
        service.clock,
        on_stats_change=ignore,
        repeat_registrations=ignore,
        on_unavailable=ignore,
    )


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def problem_of(call: Call) -> str:
    with pytest.raises(errors.KnowledgeUnavailable) as caught:
        await call()
    return str(caught.value)


async def test_of_two_hundred_reconciles_only_those_under_way_wait_for_a_service_that_hangs(
    service, knowledge
):
    service.hangs = {"*"}
    limit = asyncio.Semaphore(WORKERS)

    async def reconcile(number: int) -> None:
        async with limit:
            await problem_of(lambda: knowledge.get_run(f"r{number}", namespace="demo"))

    await asyncio.gather(*(reconcile(number) for number in range(200)))
    assert (service.waited, now_s()) == (WORKERS, client.TIMEOUT_S)


@pytest.mark.parametrize("hangs", ["*", "put_principal"])
async def test_new_missions_are_acted_on_at_once_while_registrations_hang(
    service, knowledge, sync, hangs
):
    service.hangs = {hangs}
    waits: list[float] = []
    added_at: dict[str, float] = {}

    async def reconcile(key: str) -> float | None:
        if key.startswith("cell"):
            try:
                await knowledge.put_principal(PRINCIPAL)
            except errors.KnowledgeError as exc:
                raise Backoff(str(exc), cap_s=30) from exc
            return None
        waits.append(now_s() - added_at[key])
        return None

    queue = WorkQueue(reconcile, monotonic=now_s, jitter=lambda: 0.5)
    running = [asyncio.create_task(queue.run()), asyncio.create_task(sync.run())]
    for number in range(300):
        queue.add(f"cell{number}")
    await asyncio.sleep(10)
    for number in range(60):
        added_at[f"mission{number}"] = now_s()
        queue.add(f"mission{number}")
        await asyncio.sleep(3)
    queue.stop()
    running[1].cancel()
    await running[0]
    assert len(waits) == 60
    assert max(waits) < 0.1


async def test_calls_go_through_as_soon_as_the_service_answers_the_sync_loop(
    service, knowledge, sync
):
    await service.put_run("r", RUN)
    service.hangs = {"*"}
    await problem_of(lambda: knowledge.get_run("r"))
    await problem_of(lambda: knowledge.put_run("r", RUN))
    await problem_of(lambda: knowledge.get_run("r"))
    service.hangs = set()
    begin = now_s()
    await sync.sync_once()
    for _ in range(3):
        await knowledge.get_run("r")
        await knowledge.put_run("r", RUN)
    assert now_s() == begin


async def test_without_the_sync_loop_one_call_finds_out_after_ten_seconds(service, knowledge):
    await service.put_run("r", RUN)
    service.hangs = {"*"}
    await problem_of(lambda: knowledge.get_run("r"))
    service.waited = 0
    await asyncio.sleep(10)
    await asyncio.gather(*(problem_of(lambda: knowledge.get_run("r")) for _ in range(50)))
    assert service.waited == 1
    service.hangs = set()
    await asyncio.sleep(10)
    await knowledge.get_run("r")
    await asyncio.gather(*(knowledge.get_run("r") for _ in range(50)))


async def test_the_error_says_what_timed_out_and_since_when_in_the_same_words(service, knowledge):
    service.hangs = {"*"}
    first = await problem_of(lambda: knowledge.get_run("r"))
    words = f"{first}; it has not answered since 2026-01-01T00:00:05Z"
    assert await problem_of(lambda: knowledge.get_run("other")) == words
    await asyncio.sleep(10)
    await problem_of(lambda: knowledge.get_run("r"))
    assert await problem_of(lambda: knowledge.get_run("r")) == words


async def test_the_reported_reason_is_the_first_until_the_service_answers(
    service, knowledge, sync_state
):
    service.hangs = {"*"}
    first = await problem_of(lambda: knowledge.get_run("r"))
    await problem_of(lambda: knowledge.get_run("r"))
    assert sync_state.unavailable_reason() == first


async def test_a_service_that_refuses_connections_or_calls_is_called_each_time(service, knowledge):
    service.away = True
    for _ in range(3):
        await problem_of(lambda: knowledge.get_run("r"))
    service.away = False
    for _ in range(3):
        with pytest.raises(errors.NotFound):
            await knowledge.get_run("r")
    assert service.calls == ["get_run"] * 6


async def test_one_call_that_takes_long_stops_no_others_of_a_service_that_answers(
    service, knowledge
):
    await service.put_run("r", RUN)

    async def others() -> None:
        service.hangs = set()
        for _ in range(10):
            await knowledge.get_run("r")
            await asyncio.sleep(1)

    service.hangs = {"get_run"}
    slow = asyncio.create_task(problem_of(lambda: knowledge.get_run("r")))
    await asyncio.sleep(0.1)
    await others()
    await slow


async def test_statistics_that_take_long_stop_no_reconciles(service, knowledge, sync, sync_state):
    await service.put_run("r", RUN)
    service.hangs = {"stats_batch"}
    sync_state.blueprint_stats("demo", "bp")
    await sync.sync_once()
    await knowledge.get_run("r")


async def test_reads_go_on_when_only_the_disk_hangs(service, knowledge):
    await service.put_run("r", RUN)
    service.hangs = {"put_run"}
    await problem_of(lambda: knowledge.put_run("r", RUN))
    await knowledge.get_run("r")
    assert "not answered since" in await problem_of(lambda: knowledge.put_run("r", RUN))


async def test_an_extraction_that_was_not_sent_is_not_counted(service, sync_state):
    counted: list[str] = []
    knowledge = MonitoredKnowledge(
        service, sync_state, service.clock, count_extraction=counted.append
    )
    service.hangs = {"*"}
    for _ in range(3):
        await problem_of(lambda: knowledge.start_extraction(models.ExtractionIn(run_id="r")))
    assert counted == ["failed"]
