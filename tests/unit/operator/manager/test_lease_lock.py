"""One Lease, one leader: by resourceVersion on the server and by the monotonic clock here."""

from __future__ import annotations

import asyncio
import copy
import itertools
from typing import Any

import pytest

from kais_operator import errors
from kais_operator.manager.lease_lock import LeaseLock, Timing
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.simulated_time

TIMING = Timing(lease_duration_s=15, renew_deadline_s=10, retry_period_s=0.001)


class LeaseServer:
    """Holds one Lease as the API server does; `away` makes it silent."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.away = False
        self._versions = itertools.count(1)

    async def call(
        self, method: str, path: str, *, body: Any = None, content_type: str = ""
    ) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self.away:
            raise errors.ClusterUnavailable(f"{method} {path}: no answer")
        if method == "GET":
            if self.lease is None:
                raise errors.NotFound(path)
        elif method == "POST":
            if self.lease is not None:
                raise errors.AlreadyExists(path)
            self._store(copy.deepcopy(body))
        else:
            self._patch(body)
        assert self.lease is not None
        return copy.deepcopy(self.lease)

    def _patch(self, body: Any) -> None:
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise errors.Conflict("the object has been modified")
        self._store({**self.lease, "spec": {**self.lease["spec"], **body["spec"]}})

    def _store(self, lease: dict[str, Any]) -> None:
        lease["metadata"] = {**lease["metadata"], "resourceVersion": str(next(self._versions))}
        self.lease = lease

    @property
    def holder(self) -> str | None:
        return self.lease["spec"]["holderIdentity"] if self.lease else None

    def touch(self, **spec: Any) -> None:
        assert self.lease is not None
        self._store({**self.lease, "spec": {**self.lease["spec"], **spec}})


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def election(server: LeaseServer, clock: FakeClock, identity: str = "one") -> LeaseLock:
    return LeaseLock(
        server,  # type: ignore[arg-type]
        namespace="kais-system",
        identity=identity,
        clock=clock,
        timing=TIMING,
    )


async def soon(created: Any) -> None:
    async with asyncio.timeout(60):
        await created


async def test_the_first_takes_a_lease_that_is_not_there(server, clock):
    first_election = election(server, clock)
    assert not first_election.is_leader()
    await soon(first_election.acquire())
    assert first_election.is_leader()
    assert server.holder == "one"
    assert server.lease["spec"]["leaseDurationSeconds"] == 15


async def test_the_second_waits_as_long_as_the_first_renews(server, clock):
    await soon(election(server, clock).acquire())
    task = asyncio.create_task(election(server, clock, "two").acquire())
    for _ in range(5):
        await asyncio.sleep(0.005)
        clock.advance(10)
        server.touch(renewTime="now")
    assert not task.done()
    await asyncio.sleep(0.005)
    clock.advance(15)
    await soon(task)
    assert server.holder == "two"
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_released_lease_is_taken_at_once(server, clock):
    first_election, two = election(server, clock), election(server, clock, "two")
    await soon(first_election.acquire())
    await first_election.release()
    assert not first_election.is_leader()
    assert not server.holder
    await soon(two.acquire())
    assert server.holder == "two"


async def test_a_lease_is_released_though_the_answer_to_a_renewal_was_not_heard(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    server.touch(renewTime="now")  # the renewal that was cancelled when the term ended
    await first_election.release()
    assert not server.holder


async def test_a_lease_that_another_took_is_left_to_it(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    server.touch(holderIdentity="two")
    await first_election.release()
    assert server.holder == "two"


async def test_only_the_holder_releases(server, clock):
    await soon(election(server, clock).acquire())
    await election(server, clock, "two").release()
    assert server.holder == "one"


async def test_a_leader_that_was_paused_does_not_lead_any_more(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    clock.advance(9.9)
    assert first_election.is_leader()
    clock.advance(0.2)
    assert not first_election.is_leader()


async def test_a_leader_holds_while_it_can_renew(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    holding = asyncio.create_task(first_election.renew_until_lost())
    for _ in range(4):
        await asyncio.sleep(0.01)
        clock.advance(8)
    await asyncio.sleep(0.01)
    assert first_election.is_leader()
    assert not holding.done()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_a_leader_whose_lease_was_taken_stops(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    server.touch(holderIdentity="two")
    await soon(first_election.renew_until_lost())
    assert not first_election.is_leader()


async def test_a_renewal_whose_answer_was_lost_is_not_a_loss(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    server.touch(renewTime="by the request whose answer was lost")
    holding = asyncio.create_task(first_election.renew_until_lost())
    await asyncio.sleep(0.02)
    assert not holding.done()
    assert first_election.is_leader()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_a_leader_that_hears_nothing_stops_in_time(server, clock):
    first_election = election(server, clock)
    await soon(first_election.acquire())
    server.away = True
    holding = asyncio.create_task(first_election.renew_until_lost())
    await asyncio.sleep(0.02)
    assert not holding.done()
    clock.advance(11)
    await soon(holding)
    assert not first_election.is_leader()


async def test_of_two_that_reach_for_a_free_lease_one_gets_it(server, clock):
    elections = [election(server, clock, name) for name in ("one", "two")]
    tasks = [asyncio.create_task(e.acquire()) for e in elections]
    await asyncio.sleep(0.02)
    assert sum(e.is_leader() for e in elections) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
