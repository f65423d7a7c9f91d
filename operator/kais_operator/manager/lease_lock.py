"""Leader election on one Lease: valid 15 s, renewed every 2 s, lost after 10 s without a renewal.

Writes have resourceVersion preconditions. `kubernetes.aio.leaderelection` is not used: it measures
in wall-clock time and does not release the Lease, so the next leader would wait until it expires.
Here the Lease of another holder is taken over when it has not changed for its duration by our
monotonic clock; our own counts as lost when no renewal succeeded within the deadline.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from kais import labels
from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import MERGE_PATCH, ApiClient
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import Clock

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timing:
    """How long a Lease is valid, how long its holder tries to renew it, and how often."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0


class LeaseLock:
    """Acquires and renews one Lease; `is_leader()` uses the monotonic clock."""

    def __init__(
        self,
        api_client: ApiClient,
        *,
        namespace: str,
        identity: str,
        clock: Clock,
        timing: Timing = Timing(),
        name: str = labels.LEASE,
    ) -> None:
        self._api_client = api_client
        self._ref = ObjectRef("Lease", namespace, name)
        self._identity = identity
        self._clock = clock
        self._timing = timing
        self._renewed_at: float | None = None
        self._last_observed: tuple[str, float] | None = None
        self._version = ""
        self._last_logged = ""

    def is_leader(self) -> bool:
        """Return whether this process holds the Lease now; checked before each write."""
        return (
            self._renewed_at is not None
            and self._clock.monotonic() - self._renewed_at < self._timing.renew_deadline_s
        )

    async def acquire(self) -> None:
        """Return as soon as this process holds the Lease."""
        while not await self._try_acquire():  # noqa: ASYNC110 (a Lease can only be polled)
            await asyncio.sleep(self._timing.retry_period_s)
        logger.info("leading as %s", self._identity)

    async def renew_until_lost(self) -> None:
        """Renew the Lease; return when it is lost."""
        while True:
            await asyncio.sleep(self._timing.retry_period_s)
            try:
                await self._renew()
            except errors.Conflict as exc:
                if not await self._is_still_holder():
                    logger.warning("lost %s: %s", self._ref, exc)
                    break
            except (errors.ClusterError, TimeoutError) as exc:
                logger.log(errors.log_level(exc), "%s not renewed: %s", self._ref, exc)
            if not self.is_leader():
                logger.warning("lost %s: no renewal within its time", self._ref)
                break
        self._renewed_at = None

    async def release(self) -> None:
        """Release the Lease if this process holds it, so that the next leader need not wait."""
        if not self.is_leader():
            return
        self._renewed_at = None
        patch = {"holderIdentity": None, "leaseDurationSeconds": 1}
        try:
            try:
                await self._patch(patch)
            except errors.Conflict:  # a renewal was cancelled while it was sent
                if await self._is_still_holder():
                    await self._patch(patch)
        except errors.ClusterError as exc:
            logger.log(errors.log_level(exc), "%s not released: %s", self._ref, exc)

    async def _try_acquire(self) -> bool:
        requested_at = self._clock.monotonic()
        try:
            lease = await self._read()
            if lease is None:
                lease = await self._create()
            elif not self._is_available(lease):
                self._log_once(f"standing by: {lease['spec']['holderIdentity']} leads")
                return False
            else:
                lease = await self._take_over(lease)
        except errors.ClusterError as exc:
            self._log_once(f"standing by: {exc}", errors.log_level(exc, otherwise=logging.INFO))
            return False
        self._record_renewal(lease, requested_at)
        return True

    def _log_once(self, text: str, level: int = logging.INFO) -> None:
        if text != self._last_logged:
            logger.log(level, "%s", text)
        self._last_logged = text

    def _is_available(self, lease: Body) -> bool:
        """Return whether the Lease has no holder, or one that did not renew it in time."""
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder or holder == self._identity:
            return True
        version = lease["metadata"]["resourceVersion"]
        now = self._clock.monotonic()
        if self._last_observed is None or self._last_observed[0] != version:
            self._last_observed = (version, now)
            return False
        return now - self._last_observed[1] >= float(spec.get("leaseDurationSeconds") or 0)

    async def _read(self) -> Body | None:
        try:
            return await self._api_client.call("GET", api_paths.single(self._ref))
        except errors.NotFound:
            return None

    async def _create(self) -> Body:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._ref.name, "namespace": self._ref.namespace},
            "spec": {**self._spec(), "acquireTime": self._timestamp(), "leaseTransitions": 0},
        }
        path = api_paths.collection("Lease", self._ref.namespace)
        return await self._api_client.call("POST", path, body=body)

    async def _take_over(self, lease: Body) -> Body:
        self._version = lease["metadata"]["resourceVersion"]
        transitions = (lease.get("spec") or {}).get("leaseTransitions") or 0
        return await self._patch(
            {**self._spec(), "acquireTime": self._timestamp(), "leaseTransitions": transitions + 1}
        )

    async def _renew(self) -> None:
        requested_at = self._clock.monotonic()
        async with asyncio.timeout(self._timing.renew_deadline_s):
            self._record_renewal(await self._patch(self._spec()), requested_at)

    async def _is_still_holder(self) -> bool:
        """Read the holder: a renewal whose response was lost conflicts with itself."""
        try:
            lease = await self._read()
        except errors.ClusterError:
            return True  # unknown; the renewal deadline decides
        if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self._identity:
            return False
        self._version = lease["metadata"]["resourceVersion"]
        return True

    async def _patch(self, spec: dict[str, Any]) -> Body:
        return await self._api_client.call(
            "PATCH",
            api_paths.single(self._ref),
            body={"metadata": {"resourceVersion": self._version}, "spec": spec},
            content_type=MERGE_PATCH,
        )

    def _record_renewal(self, lease: Body, requested_at: float) -> None:
        """Measure from the request, because other processes may do so."""
        self._version = lease["metadata"]["resourceVersion"]
        self._renewed_at = requested_at

    def _spec(self) -> Body:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.lease_duration_s)),
            "renewTime": self._timestamp(),
        }

    def _timestamp(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
