"""One life of a store, told by requests: every type of event happens in it."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from knowledge_service.domain.run_reports import RunKey
from knowledge_service.extraction import job
from knowledge_service.ports import ExtractionCall
from tests.contract.compatibility.serving import PEER, TEAM, Service

REASONS = {"reason": "because"}
SECOND = "realm:other"


class Story:
    """Tells one life of a store; each request must be accepted."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._keys = 0

    async def ask(self, caller: str, method: str, path: str, body: Any = None) -> Any:
        self._keys += 1
        key = f"key-{self._keys}"
        answer = await self._service.ask(caller, method, path, body, key=key)
        assert answer.status < 300, (method, path, body, answer)
        return answer.body

    async def fact(self, caller: str, content: str, **fields: Any) -> str:
        answer = await self.ask(caller, "POST", "/v1/facts", {"content": content, **fields})
        return str(answer["fact_id"])

    async def act(self, caller: str, fact: str, verb: str, **fields: Any) -> Any:
        return await self.ask(caller, "POST", f"/v1/facts/{fact}:{verb}", {**REASONS, **fields})

    async def run(self, run_id: str, **fields: Any) -> None:
        body = {"namespace": "demo", "scope": TEAM, "blueprint": "review", **fields}
        await self.ask("operator", "PUT", f"/v1/runs/{run_id}", body)

    async def recall(self, caller: str, query: str, **fields: Any) -> str:
        answer = await self.ask(caller, "POST", "/v1/recall", {"query": query, **fields})
        return str(answer["receipt"])


async def live(service: Service) -> None:
    """Have everything happen that a store can hold."""
    story = Story(service)
    await _scopes_and_callers(story)
    await story.run("run-9", kind="session")
    facts = await _facts(story)
    await _corrections(story, facts)
    await _reviews(story)
    await _promotions(story)
    await _links_and_names(story, facts)
    await _runs(story, service, facts)
    await _realm_made_again(story)
    await _retention(story, service)
    await _erasure(story, service)
    _vectors(service)
    _name_removed(service)
    await _repeated(service)
    await _receipts(story)


def _account(name: str, uid: str, home: str, realm: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "agent",
        "subject": {"username": f"system:serviceaccount:{name.replace('/', ':')}", "uid": uid},
        "home": home,
        "grants": [{"scope": home, "verbs": ["read", "write"]}],
        "realm_uid": realm,
        "quota": {"writes_per_minute": 600},
    }


async def _scopes_and_callers(story: Story) -> None:
    for name, home in (("demo/lead-1", PEER), ("demo/gone-0", f"{TEAM}/cell:gone-0")):
        account = _account(name, f"uid-{name[5:]}", home, "uid-1")
        await story.ask("operator", "PUT", "/v1/principals", account)
    deleted_path = "/v1/principals?username=system:serviceaccount:demo:gone-0"
    await story.ask("operator", "DELETE", deleted_path)
    config = {
        "many": ["uses"],
        "promotion": {"policy": "Automatic", "min_missions": 1, "min_confidence": 0.5},
        "retention": {"half_life_days": 30},
        "injection": {"max_facts": 5},
    }
    await story.ask("keeper", "PUT", f"/v1/scopes/{TEAM}", config)
    await story.ask("keeper", "PUT", "/v1/scopes/realm:demo/formation:plain", {"read_only": True})
    await story.ask("keeper", "POST", "/v1/scopes/realm:demo/formation:plain:reset")
    await story.ask("keeper", "PUT", "/v1/scopes/realm:demo/formation:retired", {})
    await story.fact(
        "keeper", "The retired team used port 90.", scope="realm:demo/formation:retired"
    )
    await story.ask("keeper", "DELETE", "/v1/scopes/realm:demo/formation:retired")


async def _facts(story: Story) -> dict[str, str]:
    """Facts told one by one, together, and by an import; some supersede or confirm others."""
    full = {
        "title": "Java of the build",
        "kind": "decision",
        "data": {"version": [21, 0.5], "naïve": True},
        "schema": "build/1",
        "about": "repo/shop",
        "position": 3,
        "subject": "build",
        "predicate": "java",
        "tags": ["Build", "java"],
        "confidence": 0.8,
        "source": {"type": "user_input", "refs": [{"type": "ticket", "id": "SHOP-1"}]},
        "expires_at": "2027-01-01T00:00:00Z",
        "valid_from": "2026-01-01T00:00:00Z",
        "valid_until": "2026-12-31T00:00:00Z",
        "aliases": [
            {"namespace": "doc", "value": "build-java"},
            {"namespace": "ko", "prefix": "KO-", "digits": 3},
        ],
        "scope": TEAM,
    }
    java = await story.fact("keeper", "The build of the shop needs Java 21.", **full)
    batch = [
        {"content": "The checkout service listens on port 8080.", "subject": "checkout",
         "predicate": "port", "valid_from": "2026-01-01T00:00:00Z", "scope": TEAM},
        {"content": "Deploys to production run on Tuesdays.", "tags": ["deploy"], "scope": TEAM},
        {"content": "The certificate of the gateway expires in June.", "scope": TEAM},
        {"content": "Ada owns the gateway.", "subject": "gateway", "predicate": "owner",
         "scope": TEAM},
    ]  # fmt: skip
    stored = await story.ask("keeper", "POST", "/v1/facts:batch", {"facts": batch})
    port, deploy, certificate, _ = (result["fact_id"] for result in stored["results"])
    imported = [
        {"content": f"Imported note {n}: the backup of database {n} runs at {n}:30 at night.",
         "source": {"type": "import", "refs": [{"type": "file", "id": f"notes.md#{n}"}]},
         "scope": TEAM}
        for n in range(8)
    ]  # fmt: skip
    await story.ask("keeper", "POST", "/v1/facts:batch", {"facts": imported})
    cell = await story.fact("lead", "The lead prefers short reviews.", run="run-9", attempt=1)
    await story.fact("lead", "My token is ghp_" + "a" * 36 + " for the registry.")
    await story.fact("keeper", "Deploys to production run on Tuesdays.", scope=TEAM)
    key = {"subject": "checkout", "predicate": "port", "scope": TEAM}
    await story.fact("keeper", "The checkout service listens on port 9090.", **key)
    # Told late: it was true before the other, whose end it brings forward.
    late = {**key, "valid_from": "2026-02-01T00:00:00Z"}
    await story.fact("keeper", "The checkout service listened on port 7070.", **late)
    for tool in ("ruff", "mypy"):
        await story.fact("keeper", f"The shop uses {tool}.", subject="shop", predicate="uses",
                         scope=TEAM)  # fmt: skip
    return {"java": java, "port": port, "deploy": deploy, "certificate": certificate, "cell": cell}


async def _corrections(story: Story, facts: dict[str, str]) -> None:
    corrected = await story.act("keeper", facts["java"], "correct",
                                replacement="The build of the shop needs Java 25.")  # fmt: skip
    facts["java 25"] = str(corrected["replacement_id"])
    wrong = await story.fact("keeper", "The cache is flushed every hour.", scope=TEAM)
    await story.act("keeper", wrong, "correct")
    forced = {"force": True, "scope": TEAM}
    await story.fact("keeper", "The cache is flushed every hour.", **forced)
    restored_fact = await story.fact("keeper", "The queue holds a day of orders.", scope=TEAM)
    await story.act("keeper", restored_fact, "retract")
    await story.act("keeper", restored_fact, "restore")
    await story.act("ada", restored_fact, "confirm", session="run-1")
    undone = await story.fact("keeper", "The shop closes at noon.", scope=TEAM)
    await story.act("keeper", undone, "retract")
    await story.act("keeper", undone, "undo")
    taken_back = await story.fact("keeper", "The shop never closes.", scope=TEAM)
    await story.act("keeper", taken_back, "undo")
    fact = await story.fact("keeper", "Orders are archived after a year.", scope=TEAM)
    await story.act("ada", fact, "confirm")
    await story.act("ada", fact, "undo")


async def _reviews(story: Story) -> None:
    drafts = [
        await story.fact("lead", f"Draft {n}: the ledger is closed on day {n}.", review="draft")
        for n in range(4)
    ]
    await story.act("keeper", drafts[0], "approve")
    await story.act("keeper", drafts[1], "approve", title="Closing of the ledger", tags=["ledger"],
                    content="The ledger is closed on the second day.")  # fmt: skip
    await story.act("keeper", drafts[2], "reject")


async def _promotions(story: Story) -> None:
    stays = await story.fact("keeper", "Invoices are numbered by year.", scope=TEAM)
    await story.act("keeper", stays, "promote")
    withdrawn = await story.fact("keeper", "Invoices are paid in thirty days.", scope=TEAM)
    await story.act("keeper", withdrawn, "promote")
    await story.act("keeper", withdrawn, "retract")
    await story.act("keeper", withdrawn, "undo")
    confirmed = await story.fact("lead", "Invoices are sent on Mondays.")
    copy = (await story.act("keeper", confirmed, "promote"))["copy_id"]
    await story.act("ada", copy, "confirm", session="elsewhere")
    await story.act("keeper", confirmed, "retract")


async def _links_and_names(story: Story, facts: dict[str, str]) -> None:
    for kind in ("mentions", "contains", "blocks"):
        body = {"from": facts["deploy"], "to": facts["certificate"], "type": kind, "weight": 2,
                "data": {"line": 7}, "valid_from": "2026-02-01T00:00:00Z"}  # fmt: skip
        await story.ask("keeper", "POST", "/v1/links", body)
    ends = f"from={facts['deploy']}&to={facts['certificate']}"
    await story.ask("keeper", "DELETE", f"/v1/links?{ends}&type=contains")
    await story.act("keeper", facts["deploy"], "undo")
    await story.ask("keeper", "DELETE", f"/v1/links?{ends}&type=mentions")
    # What closed with a correction opens again when that is undone, the link among it.
    replaced = await story.fact("keeper", "The gateway runs on two nodes.", scope=TEAM,
                                aliases=[{"namespace": "doc", "value": "gateway"}])  # fmt: skip
    await story.act("keeper", replaced, "correct", replacement="The gateway runs on three nodes.")
    await story.act("keeper", replaced, "undo")
    await story.act("keeper", replaced, "undo")


async def _runs(story: Story, service: Service, facts: dict[str, str]) -> None:
    messages = ("consulted", "applied", "prevented")
    for caller, kinds in (
        ("lead", messages),
        ("operator", ("recalled", "injected", "succeeded", "failed", *messages)),
    ):
        uses = [{"fact": facts["deploy"], "kind": kind, "count": 2} for kind in kinds]
        await story.ask(caller, "POST", "/v1/usage", {"uses": uses})
    full_fields = {
        "kind": "mission", "revision": 2, "instance": "review-1", "mission": "review-1",
        "objective": "review the shop", "parameters": {"depth": "2", "who": "Ada"},
        "parameters_hash": "sha256:abc", "agent": "claude", "attempts": 1,
        "started_at": "2026-03-02T09:00:00Z",
    }  # fmt: skip
    await story.run("run-2", **full_fields)
    await story.recall("operator", "java build of the shop", run="run-2", attempt=1,
                       scopes=[TEAM])  # fmt: skip
    episodes = [
        {"type": "message", "content": "looked at the build"},
        {"type": "decision", "content": "We decided to use Java 25 because it is faster."},
        {"type": "tool_call", "content": "mvn verify", "refs": [{"type": "file", "id": "pom.xml"}]},
        {"type": "error", "content": "Compilation failed: release 21 not supported",
         "error_signature": "compile-failed", "at": "2026-03-02T09:01:00Z"},
        {"type": "check", "content": "tests: 80 of 80 green", "attempt": 2},
        {"type": "message", "content": "looked at the build"},
    ]  # fmt: skip
    await story.ask("operator", "POST", "/v1/episodes", {"run_id": "run-2", "episodes": episodes})
    end = {"outcome": "Succeeded", "finished_at": "2026-03-02T09:10:00Z", "attempts": 2,
           "cost": 0.25, "tokens": 1234, "counters": {"tool_calls": 3}}  # fmt: skip
    await story.run("run-2", **end)
    await story.ask("operator", "POST", "/v1/extractions", {"run_id": "run-2", "max_facts": 7})
    job.run_extraction(service.store, RunKey("realm:demo", "run-2"))
    for run_id, outcome in (
        ("run-3", "Failed"), ("run-4", "TimedOut"), ("run-5", "BudgetExceeded"),
        ("run-6", "Cancelled"), ("run-7", "InfrastructureFailed"),
    ):  # fmt: skip
        await story.run(run_id, **full_fields)
        await story.run(run_id, outcome=outcome, cost=0.5, finished_at="2026-03-02T10:00:00Z")
    await story.run("run-8", arm="holdout", parameters={"depth": "3"})
    broken = RunKey("realm:demo", "run-3")
    await story.ask("operator", "POST", "/v1/extractions", {"run_id": "run-3"})
    service.store.begin_extraction(broken)
    service.store.fail_extraction(broken, "the disk was busy", retry=True)
    service.store.begin_extraction(broken)
    service.store.choose_extraction_model(broken, "small")
    call = ExtractionCall(cost=Decimal("0.01"), budget=None, since=datetime(2026, 3, 1, tzinfo=UTC))
    service.store.reserve_extraction_call(broken, call)
    service.store.settle_extraction_call(
        broken, reserved=call.cost, cost=Decimal("0.002"), tokens=(800, 120)
    )
    service.store.fail_extraction(broken, "the record cannot be read", retry=False)
    await story.ask("operator", "POST", "/v1/extractions", {"run_id": "run-4"})


async def _realm_made_again(story: Story) -> None:
    """A namespace that was deleted and made again starts empty, then takes its past over."""
    home = f"{SECOND}/formation:team/cell:worker-0"
    team = f"{SECOND}/formation:team"
    await story.ask("operator", "PUT", "/v1/principals",
                    _account("other/worker-0", "uid-1", home, "ns-other-1"))  # fmt: skip
    names = [{"namespace": "ko", "prefix": "OTHER-"}]
    await story.fact("operator", "The other team ships on Fridays.", scope=team, aliases=names)
    body = {"namespace": "other", "scope": team, "outcome": "Succeeded"}
    await story.ask("operator", "PUT", "/v1/runs/run-1", body)
    await story.ask("operator", "PUT", "/v1/principals",
                    _account("other/worker-0", "uid-2", home, "ns-other-2"))  # fmt: skip
    await story.fact("operator", "The other team has a new home.", scope=team, aliases=names)
    await story.ask("operator", "POST", f"/v1/scopes/{SECOND}:adopt")


async def _retention(story: Story, service: Service) -> None:
    scope = "realm:demo/formation:small"
    await story.ask("keeper", "PUT", f"/v1/scopes/{scope}", {"retention": {"max_facts": 3}})
    for n in range(6):
        await story.fact("keeper", f"Reading {n} of the thermometer.", scope=scope,
                         confidence=0.3 + n / 10)  # fmt: skip
    assert service.store.retain() == 3


async def _erasure(story: Story, service: Service) -> None:
    combined_facts = [
        {"content": f"Phone number of customer {n}.", "scope": TEAM} for n in range(3)
    ]
    stored = await story.ask("keeper", "POST", "/v1/facts:batch", {"facts": combined_facts})
    await story.act("keeper", stored["results"][1]["fact_id"], "erase")
    draft = await story.fact("lead", "The address of a customer is known.", review="draft")
    edited = await story.act("keeper", draft, "approve", content="An address is on file.",
                             title="Address")  # fmt: skip
    await story.act("keeper", edited["fact"]["id"], "erase")
    name = [{"namespace": "doc", "value": "harbour"}]
    named = await story.fact("keeper", "The harbour opens at six.", scope=TEAM, aliases=name)
    between = await story.act("keeper", named, "correct", replacement="It opens at five.")
    later = between["replacement_id"]
    await story.act("keeper", later, "correct", replacement="It opens at four.")
    await story.act("keeper", later, "erase")
    scope = "realm:demo/formation:erased"
    await story.fact("keeper", "A scope that is erased with its facts.", scope=scope)
    await story.ask("keeper", "DELETE", f"/v1/scopes/{scope}?erase=true")
    while service.store.erase_deleted():
        pass


def _vectors(service: Service) -> None:
    """Keep a vector for some facts, as an embeddings endpoint would have given them."""
    facts, _ = service.store.facts_without_vector("frozen-model", None, 5)
    vectors = [
        (fact_id, struct.pack("<4f", n, 0.5, -1, 0)) for n, (fact_id, _) in enumerate(facts, 1)
    ]
    service.store.keep_vectors("frozen-model", vectors)


def _name_removed(service: Service) -> None:
    """Write the one type of event that is read and that no request makes any more."""
    part = {"namespace": "doc", "value": "build-java"}
    number = "SELECT scope_no FROM scope WHERE path = ? AND retired_at IS NULL"
    service.store._writer.submit(
        lambda tx: tx.record(
            "alias.removed",
            scope_no=tx.fetch_all(number, (TEAM,))[0][0],
            actor="keeper",
            parts=[part],
        )
    )


async def _repeated(service: Service) -> None:
    answer = await service.ask(*REPEATED)
    assert answer.status == 201, answer


REPEATED = (
    "keeper", "POST", "/v1/facts", {"content": "A write that is repeated.", "scope": TEAM}, "again",
)  # fmt: skip
"""A request with an idempotency key, which still holds for a day."""
QUERIES = (
    {"query": "which java does the build of the shop need"},
    {"query": "port of checkout", "include_closed": True},
    {"query": "deploys to production", "limit": 3, "max_tokens": 40},
    {"query": "backup database at night", "tags": [], "min_confidence": 0.2, "limit": 5},
    {"query": "invoices", "scopes": ["realm:demo"]},
    {"query": "what runs on Tuesdays", "kinds": ["fact"], "known_at": "2026-03-02T13:00:00Z"},
)


async def _receipts(story: Story) -> None:
    """Recall last of all, so that a replay finds the store as the recall left it."""
    await story.run("run-10", instance="review-9", mission="review-9")
    for query in QUERIES:
        for caller in ("lead", "ada"):
            await story.recall(caller, **query)
            await story.recall(caller, **query, run="run-10", attempt=1)
