"""What everybody shares, and what others do where the peer does not see it."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx

from knowledge_client.models import (
    ConfirmIn,
    EpisodeIn,
    EpisodesIn,
    FactIn,
    FactUse,
    LinkIn,
    ReasonIn,
    RecallIn,
    RunIn,
    ScopeConfig,
    UsageIn,
)
from tests.contract.service.callers import Connect
from tests.knowledge_builders import LEAD, OTHER, TEAM, run_in

WORD = "xylophone"
MISSING = "01900000-0000-7000-8000-000000000000"
Look = tuple[str, str, Any]


class World:
    """What everybody shares, and what is done where the peer does not see it."""

    def __init__(self, connect: Connect, http: httpx.AsyncClient) -> None:
        self._connect = connect
        self._http = http
        self.names: dict[str, str] = {}
        self.hidden: list[str] = []

    async def share(self) -> None:
        """Let the team and the peer know some facts."""
        ada, peer = self._connect("ada"), self._connect("peer")
        for name in ("one", "two", "three"):
            fact = FactIn(content=f"shared {name}", scope=TEAM, tags=("rain",))
            self.names[name] = (await ada.remember(fact)).fact_id
        self.names["own"] = (await peer.remember(FactIn(content="my own shared"))).fact_id
        await peer.link(LinkIn(from_=self.names["own"], to=self.names["one"]))
        await self._connect("operator").put_run("run", run_in(outcome="Succeeded"))
        # A later look must not see what the look before it left.
        key = {"Idempotency-Key": "receipt"}
        asked = await self.ask("POST", "/v1/recall", {"query": "shared"}, **key)
        self.names["receipt"] = asked.json()["receipt"]

    async def hide(self) -> None:
        """Do whatever callers do, in scopes that the peer does not see."""
        lead, operator = self._connect("lead"), self._connect("operator")
        one, two = self.names["one"], self.names["two"]
        for client, own in ((lead, LEAD), (self._connect("stranger"), f"{OTHER}/cell:x")):
            told = [
                (await client.remember(FactIn(content=f"shared {WORD} {n}", tags=(WORD, "rain"))))
                for n in range(4)
            ]
            first, second, third, _ = (each.fact_id for each in told)
            self.hidden += [each.fact_id for each in told]
            await client.link(LinkIn(from_=first, to=second, type=WORD))
            await client.retract(third, ReasonIn(reason=WORD))
            await client.recall(RecallIn(query="shared"), idempotency_key=WORD)
            run_id = f"{WORD}-{own.rpartition(':')[2]}"
            await client.put_run(run_id, session(own))
            await client.add_episodes(episodes(run_id))
            await client.recall(RecallIn(query="shared", run=run_id))
            await client.put_run(run_id, session(own, outcome="Succeeded"))
        own = self.hidden[0]
        await lead.link(LinkIn(from_=own, to=one, type="contradicts"))
        await lead.link(LinkIn(from_=own, to=two, type="derived_from"))
        await lead.count_usage(UsageIn(uses=(FactUse(fact=one, kind="applied", count=7),)))
        await lead.confirm(own, ConfirmIn(session=WORD))
        await operator.link(LinkIn(from_=one, to=own, type=WORD))
        await operator.put_scope(LEAD, ScopeConfig(read_only=True))

    async def ask(
        self, method: str, path: str, body: Any = None, *, caller: str = "peer", **headers: str
    ) -> httpx.Response:
        """Ask as the peer, with `{one}` and the like in paths and bodies filled in."""
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", value)
            body = json.loads(json.dumps(body).replace(f"{{{name}}}", value))
        headers = {"Authorization": f"Bearer {caller}", **headers}
        return await self._http.request(method, path, json=body, headers=headers)

    async def look(self, looks: list[Look]) -> list[tuple[int, str]]:
        """Return status and text of some requests, without the moment of asking."""
        found = [await self.ask(*each) for each in looks]
        moment = r'"known_at":"[^"]*"'
        return [(each.status_code, re.sub(moment, "", each.text)) for each in found]

    def says_nothing(self, text: str) -> bool:
        """Tell whether neither words nor ids of what is hidden are there."""
        return not any(each in text for each in (WORD, LEAD, OTHER, *self.hidden))


def session(scope: str, **given: Any) -> RunIn:
    namespace = "demo" if "demo" in scope else "other"
    return RunIn(
        kind="session", namespace=namespace, scope=scope, blueprint="review", mission=WORD, **given
    )


def episodes(run_id: str) -> EpisodesIn:
    return EpisodesIn(run_id=run_id, episodes=(EpisodeIn(type="message", content=WORD),))


def get(*paths: str) -> list[Look]:
    return [("GET", path, None) for path in paths]
