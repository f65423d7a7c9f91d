"""What everybody shares, and what others do where the peer does not see it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx

from knowledge_client import AsyncKnowledgeClient
from knowledge_client.models import (
    ActionStepIn,
    Chart,
    ChartIn,
    ConfirmIn,
    EpisodeIn,
    EpisodesIn,
    FactIn,
    FactUse,
    GraphEntitiesIn,
    GraphEntityIn,
    GraphNamesIn,
    GraphRelationIn,
    GraphRelationsIn,
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
        self.charts: list[str] = []

    async def share(self) -> None:
        """Let the team and the peer know some facts."""
        ada, peer = self._connect("ada"), self._connect("peer")
        for name in ("one", "two", "three"):
            fact = FactIn(content=f"shared {name}", scope=TEAM, tags=("rain",))
            self.names[name] = (await ada.remember(fact)).fact_id
        self.names["own"] = (await peer.remember(FactIn(content="my own shared"))).fact_id
        await ada.create_entities(graph_entities("one", scope=TEAM))
        chart = await ada.create_chart(chart_in("one", scope=TEAM))
        self.names |= {"chart": chart.id, "step": chart.action_steps[0].name}
        await peer.link(LinkIn(from_=self.names["own"], to=self.names["one"]))
        await self._connect("operator").put_run("run", run_in(outcome="Succeeded"))
        # A later look must not see what the look before it left.
        key = {"Idempotency-Key": "receipt"}
        recall_response = await self.ask("POST", "/v1/recall", {"query": "shared"}, **key)
        self.names["receipt"] = recall_response.json()["receipt"]

    async def hide(self) -> None:
        """Do whatever callers do, in scopes that the peer does not see."""
        lead, operator = self._connect("lead"), self._connect("operator")
        one, two = self.names["one"], self.names["two"]
        for client, own in ((lead, LEAD), (self._connect("stranger"), f"{OTHER}/cell:x")):
            entries = [
                (await client.remember(FactIn(content=f"shared {WORD} {n}", tags=(WORD, "rain"))))
                for n in range(4)
            ]
            first, second, third, _ = (remembered_fact.fact_id for remembered_fact in entries)
            self.hidden += [remembered_fact.fact_id for remembered_fact in entries]
            await client.link(LinkIn(from_=first, to=second, type=WORD))
            await client.retract(third, ReasonIn(reason=WORD))
            await client.recall(RecallIn(query="shared"), idempotency_key=WORD)
            await client.create_entities(graph_entities(WORD))
            end = "entity one" if client is lead else f"entity {WORD}"
            relation = GraphRelationIn(from_=f"entity {WORD}", relation_type=WORD, to=end)
            await client.create_relations(GraphRelationsIn(relations=(relation,)))
            await self._hide_chart(client, await client.create_chart(chart_in(WORD)))
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

    async def _hide_chart(self, client: AsyncKnowledgeClient, chart: Chart) -> None:
        """Relate a hidden chart to the shared one in every way that makes a chart of entities."""
        self.charts.append(chart.id)
        step = chart.action_steps[0].name
        pairs = (f"{chart.id}_chart", step), (step, f"{chart.id}_desired_outcome")
        ids = {
            entity.name: entity.id
            for pair in pairs
            for entity in (await client.open_entities(GraphNamesIn(names=pair))).entities
        }
        self.hidden += ids.values()
        operator = self._connect("operator")
        shared_step, shared_chart = self.names["step"], f"{self.names['chart']}_chart"
        shared = await operator.open_entities(GraphNamesIn(names=(shared_step, shared_chart)))
        by_name = {entity.name: entity.id for entity in shared.entities}
        for start, end, link_type in (
            (by_name[shared_step], ids[f"{chart.id}_chart"], "telescopes_into"),
            (by_name[shared_chart], ids[step], "contains"),
            (ids[step], by_name[shared_chart], "telescopes_into"),
        ):
            await operator.link(LinkIn(from_=start, to=end, type=link_type))

    async def ask(
        self, method: str, path: str, body: Any = None, *, caller: str = "peer", **headers: str
    ) -> httpx.Response:
        """Ask as the peer, with `{one}` and the like in paths and bodies filled in."""
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", value)
            body = json.loads(json.dumps(body).replace(f"{{{name}}}", value))
        headers = {"Authorization": f"Bearer {caller}", **headers}
        return await self._http.request(method, path, json=body, headers=headers)

    async def look(self, requests: list[Look]) -> list[tuple[int, str]]:
        """Return status and text of some requests, without the moment of asking."""
        answers = [await self.ask(*answer) for answer in requests]
        moment = r'"known_at":"[^"]*"'
        return [(answer.status_code, re.sub(moment, "", answer.text)) for answer in answers]

    def says_nothing(self, text: str) -> bool:
        """Tell whether neither words nor ids of what is hidden are there."""
        return not any(each in text for each in (WORD, LEAD, OTHER, *self.hidden, *self.charts))


def graph_entities(name: str, scope: str | None = None) -> GraphEntitiesIn:
    entity = GraphEntityIn(
        name=f"entity {name}", entity_type="x", observations=(f"watched {name}",)
    )
    return GraphEntitiesIn(entities=(entity,), scope=scope)


def chart_in(name: str, scope: str | None = None) -> ChartIn:
    return ChartIn(
        desired_outcome=f"outcome {name}",
        current_reality=f"reality {name}",
        due_date=datetime(2030, 5, 1, tzinfo=UTC),
        action_steps=(ActionStepIn(title=f"step {name}"), ActionStepIn(title="last step")),
        scope=scope,
    )


def session(scope: str, **fields: Any) -> RunIn:
    namespace = "demo" if "demo" in scope else "other"
    return RunIn(
        kind="session", namespace=namespace, scope=scope, blueprint="review", mission=WORD, **fields
    )


def episodes(run_id: str) -> EpisodesIn:
    return EpisodesIn(run_id=run_id, episodes=(EpisodeIn(type="message", content=WORD),))


def get(*paths: str) -> list[Look]:
    return [("GET", path, None) for path in paths]
