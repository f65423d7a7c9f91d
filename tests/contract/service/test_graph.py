"""The graph: entities with observations, and relations, as facts and links."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    EntityObservationsIn,
    FactIn,
    Graph,
    GraphEntitiesIn,
    GraphEntityIn,
    GraphNamesIn,
    GraphObservationsIn,
    GraphRelationsIn,
    LinkIn,
    ReasonIn,
    RecallIn,
    ReviseIn,
)
from tests.contract.service.callers import Connect, refused
from tests.knowledge_builders import LEAD, TEAM

CODE = errors.ErrorCode
SHIP = GraphEntityIn(
    name="Ship / the release",
    entity_type="desired outcome",
    observations=("The release is out.", "Everybody knows.", "The release is out."),
    metadata={"dueDate": "2026-04-01"},
)
NOW = GraphEntityIn(name="now", entity_type="current_reality", observations=("Nothing is out.",))


async def created(client: AsyncKnowledgeClient, *entities: GraphEntityIn) -> Graph:
    return await client.create_entities(GraphEntitiesIn(entities=entities))


def relations(*triples: tuple[str, str, str], **fields: object) -> GraphRelationsIn:
    return GraphRelationsIn.model_validate(
        {"relations": [{"from": a, "relation_type": b, "to": c, **fields} for a, b, c in triples]}
    )


def observed(entity: str, *contents: str) -> GraphObservationsIn:
    return GraphObservationsIn(
        observations=(EntityObservationsIn(entity=entity, contents=contents),)
    )


def names(*each: str) -> GraphNamesIn:
    return GraphNamesIn(names=each)


async def test_entities_observations_and_relations_come_back(connect: Connect) -> None:
    lead = connect("lead")
    created_graph = await created(lead, SHIP, NOW)
    assert [entity.name for entity in created_graph.entities] == ["Ship / the release", "now"]
    new = await lead.create_relations(
        relations(("now", "creates tension with", "Ship / the release"), strength=0.75,
                  metadata={"createdAt": "2026-03-01"})
    )  # fmt: skip
    assert len(new.relations) == 1
    graph = await lead.read_graph()
    now, ship = graph.entities
    assert (ship.entity_type, ship.metadata) == ("desired outcome", {"dueDate": "2026-04-01"})
    assert ship.observations == ("The release is out.", "Everybody knows.")
    assert (now.scope, now.observations) == (LEAD, ("Nothing is out.",))
    assert graph.relations == new.relations
    (relation,) = graph.relations
    assert (relation.from_, relation.to) == ("now", "Ship / the release")
    assert (relation.relation_type, relation.strength) == ("creates tension with", 0.75)
    assert relation.metadata == {"createdAt": "2026-03-01"}
    assert (graph.truncated, graph.cursor) == (False, None)


@pytest.mark.parametrize("value", [5, None, "hates", "Works on"], ids=repr)
@pytest.mark.parametrize("kind", ["knows", "works on"])
async def test_metadata_with_the_key_of_the_type_comes_back_and_leaves_the_type_alone(
    connect: Connect, kind: str, value: object
) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    metadata = {"relationType": value, "metadata.relationType": 1, "a": 2}
    new = await lead.create_relations(relations(("now", kind, SHIP.name), metadata=metadata))
    both = names("now", SHIP.name)
    for graph in (await lead.read_graph(), await lead.open_entities(both)):
        assert graph.relations == new.relations
        (relation,) = graph.relations
        assert (relation.relation_type, relation.metadata) == (kind, metadata)
    deleted = await lead.delete_relations(relations(("now", kind, SHIP.name)))
    assert len(deleted.relations) == 1


@pytest.mark.parametrize("value", [5, None, "hates"], ids=repr)
async def test_graph_has_a_link_whose_data_has_no_type_in_place_of_the_type(
    connect: Connect, value: object
) -> None:
    lead = connect("lead")
    now, ship = (await created(lead, NOW, SHIP)).entities
    data = {"relationType": value, "metadata.relationType": 1}
    await lead.link(LinkIn(from_=now.id, to=ship.id, type="knows", data=data))
    for graph in (await lead.read_graph(), await lead.open_entities(names("now", SHIP.name))):
        (relation,) = graph.relations
        assert (relation.relation_type, relation.metadata) == ("knows", data)


async def test_graph_has_a_type_of_other_characters_as_earlier_releases_stored_it(
    connect: Connect,
) -> None:
    lead = connect("lead")
    now, ship = (await created(lead, NOW, SHIP)).entities
    data = {"relationType": "Works on", "a": 2}
    await lead.link(LinkIn(from_=now.id, to=ship.id, type="works_on", data=data))
    (relation,) = (await lead.read_graph()).relations
    assert (relation.relation_type, relation.metadata) == ("Works on", {"a": 2})


async def test_what_is_there_is_not_created_again(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    assert (await created(lead, SHIP)).entities == ()
    triple = ("now", "supports", "Ship / the release")
    assert len((await lead.create_relations(relations(triple))).relations) == 1
    assert (await lead.create_relations(relations(triple))).relations == ()
    added = await lead.add_observations(observed("now", "Nothing is out.", "A draft exists."))
    assert added.observations[0].contents == ("A draft exists.",)
    (now,) = (await lead.open_entities(names("now"))).entities
    assert now.observations == ("Nothing is out.", "A draft exists.")


async def test_entities_are_opened_by_their_names(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    await lead.create_relations(relations(("now", "supports", "Ship / the release")))
    opened = await lead.open_entities(names("now", "nobody", "now"))
    assert ([entity.name for entity in opened.entities], opened.relations) == (["now"], ())
    both = await lead.open_entities(names("Ship / the release", "now"))
    assert len(both.relations) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHIP", ["Ship / the release"]),
        ("current_", ["now"]),
        ("is out", ["now", "Ship / the release"]),
        ("no such text", []),
    ],
)
async def test_search_reads_names_types_and_observations(
    connect: Connect, text: str, expected: list[str]
) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    await lead.remember(FactIn(content="ship: this is out of the graph"))
    result = await lead.read_graph(contains=text)
    assert sorted(entity.name for entity in result.entities) == sorted(expected)
    assert result.truncated is False
    first = await lead.read_graph(contains="is out", limit=1)
    assert (len(first.entities), first.truncated) == (1, True)


async def test_the_graph_is_read_in_pages(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, *(GraphEntityIn(name=f"e{n}", entity_type="x") for n in range(5)))
    listed, cursor = [], None
    while True:
        page = await lead.read_graph(limit=2, cursor=cursor)
        listed += [entity.name for entity in page.entities]
        cursor = page.cursor
        assert page.truncated is (cursor is not None)
        if cursor is None:
            break
    assert listed == ["e4", "e3", "e2", "e1", "e0"]


async def test_all_pages_together_have_every_relation_once(connect: Connect) -> None:
    lead, peer = connect("lead"), connect("peer")
    await created(lead, *(GraphEntityIn(name=f"e{n}", entity_type="x") for n in range(4)))
    await created(peer, GraphEntityIn(name="hidden", entity_type="x"))
    triples = {("e0", "supports", "e3"), ("e3", "supports", "e0"), ("e1", "supports", "e2")}
    await lead.create_relations(relations(*triples))
    fact = (await lead.remember(FactIn(content="no entity"))).fact_id
    (e0,) = (await lead.open_entities(names("e0"))).entities
    await lead.link(LinkIn(from_=e0.id, to=fact, type="mentions"))
    read, cursor = [], None
    while True:
        page = await lead.read_graph(limit=2, cursor=cursor, outgoing=True)
        read += [
            (relation.from_, relation.relation_type, relation.to) for relation in page.relations
        ]
        cursor = page.cursor
        if cursor is None:
            break
    assert (len(read), set(read)) == (3, triples)
    assert (await peer.read_graph(outgoing=True)).relations == ()


async def test_what_is_deleted_can_be_created_again(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    triple = ("now", "supports", "Ship / the release")
    await lead.create_relations(relations(triple))
    deletion = await lead.delete_observations(observed("now", "Nothing is out.", "never said"))
    assert deletion.observations[0].contents == ("Nothing is out.",)
    assert (await lead.delete_observations(observed("now", "x"))).observations[0].contents == ()
    assert len((await lead.delete_relations(relations(triple))).relations) == 1
    assert (await lead.delete_relations(relations(triple))).relations == ()
    assert (await lead.delete_entities(names("now", "nobody"))).names == ("now",)
    assert [entity.name for entity in (await lead.read_graph()).entities] == ["Ship / the release"]
    repeated = await created(lead, NOW)
    assert repeated.entities[0].observations == ("Nothing is out.",)
    assert (await lead.read_graph()).relations == ()


async def test_a_relation_to_nothing_is_refused_before_anything_is_stored(
    connect: Connect,
) -> None:
    lead = connect("lead")
    await created(lead, NOW)
    bad = relations(("now", "supports", "now"), ("now", "supports", "nothing"))
    refusal = await refused(lead.create_relations(bad), CODE.NOT_FOUND)
    assert refusal == "entity 'nothing' does not exist or is not visible to you"
    assert (await lead.read_graph()).relations == ()
    refusal = await refused(lead.add_observations(observed("nothing", "x")), CODE.NOT_FOUND)
    assert refusal == "entity 'nothing' does not exist or is not visible to you"


async def test_an_invalid_observation_stores_no_entity(connect: Connect) -> None:
    lead = connect("lead")
    blank = GraphEntityIn(name="late", entity_type="x", observations=("right", " "))
    await refused(created(lead, NOW, blank), CODE.INVALID_BODY)
    assert (await lead.read_graph()).entities == ()


async def test_entities_of_others_are_invisible(connect: Connect) -> None:
    lead, peer = connect("lead"), connect("peer")
    await created(lead, SHIP, NOW)
    assert (await peer.read_graph()).entities == ()
    assert (await peer.read_graph(contains="out")).entities == ()
    assert (await peer.open_entities(names("now"))).entities == ()
    hidden = await refused(peer.add_observations(observed("now", "x")), CODE.NOT_FOUND)
    missing = await refused(peer.add_observations(observed("nix", "x")), CODE.NOT_FOUND)
    assert hidden.replace("now", "nix") == missing
    assert (await peer.delete_entities(names("now"))).names == ()
    assert len((await created(peer, NOW)).entities) == 1
    await refused(peer.read_graph(scope=LEAD), CODE.SCOPE_FORBIDDEN)


async def test_an_agent_deletes_nothing_of_others(connect: Connect) -> None:
    ada, lead = connect("ada"), connect("lead")
    await ada.create_entities(GraphEntitiesIn(entities=(NOW,), scope=TEAM))
    (entity,) = (await lead.read_graph()).entities
    assert entity.scope == TEAM
    with pytest.raises(errors.PermissionDenied):
        await lead.delete_entities(names("now"))
    assert (await lead.read_graph()).entities == (entity,)


async def test_what_another_observed_keeps_an_entity_whole(connect: Connect) -> None:
    first, mate = connect("first use"), connect("teammate")
    await created(first, NOW, SHIP)
    await mate.add_observations(observed("now", "A draft exists."))
    graph_before = await first.read_graph()
    for call in (
        first.delete_entities(names("Ship / the release", "now")),
        first.delete_observations(observed("now", "Nothing is out.", "A draft exists.")),
    ):
        assert "demo/formation:team/cell:lead-1 wrote it" in await refused(call, CODE.FORBIDDEN)
        assert await first.read_graph() == graph_before


async def test_relations_are_stored_all_or_none(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    bad = relations(("now", "supports", "Ship / the release"), ("now", "supersedes", "now"))
    await refused(lead.create_relations(bad), CODE.INVALID_BODY)
    assert (await lead.read_graph()).relations == ()


# Hundreds of writes take half a minute in memory, where each reads the whole log.
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_an_entity_with_many_observations_is_deleted_whole(connect: Connect) -> None:
    lead = connect("lead")
    entity = (await created(lead, NOW)).entities[0].id
    texts = [f"observation {n}" for n in range(520)]
    for start in range(0, 520, 100):
        await lead.add_observations(observed("now", *texts[start : start + 100]))
    (now,) = (await lead.open_entities(names("now"))).entities
    assert now.observations == ("Nothing is out.", *texts[:499])
    added = await lead.add_observations(observed("now", texts[-1], "the last"))
    assert added.observations[0].contents == ("the last",)
    deletion = await lead.delete_observations(observed("now", texts[-1]))
    assert deletion.observations[0].contents == (texts[-1],)
    page = await lead.list_facts(about=entity, limit=500)
    rest = await lead.list_facts(about=entity, limit=500, cursor=page.cursor)
    live = [fact.content for fact in (*page.facts, *rest.facts) if fact.lifecycle == "live"]
    assert live == ["Nothing is out.", *texts[:-1], "the last"]
    await lead.delete_entities(names("now"))
    assert (await lead.list_facts(about=entity, lifecycle="live")).facts == ()


async def test_other_links_do_not_slow_a_read_down(connect: Connect) -> None:
    """Only links among the entities of an answer are read, and no other links of an entity."""
    lead = connect("lead")
    entity = (await created(lead, NOW, SHIP)).entities[0].id
    for number in range(30):
        fact = (await lead.remember(FactIn(content=f"fact {number}"))).fact_id
        await lead.link(LinkIn(from_=fact, to=entity, type="mentions"))
    triple = ("now", "supports", "Ship / the release")
    await lead.create_relations(relations(triple))
    graph = await lead.read_graph()
    assert [
        (relation.from_, relation.relation_type, relation.to) for relation in graph.relations
    ] == [triple]


async def test_recall_finds_an_observation(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    recalled = await lead.recall(RecallIn(query="does everybody know about the release?"))
    assert "Everybody knows." in [fact.content for fact in recalled.facts]


async def test_an_entity_is_charged_as_the_facts_that_it_takes(http: httpx.AsyncClient) -> None:
    caller = {"Authorization": "Bearer telling"}
    statuses = []
    for entity in (NOW, SHIP):
        body = GraphEntitiesIn(entities=(entity,)).model_dump(mode="json")
        answer = await http.post("/v1/graph/entities", json=body, headers=caller)
        statuses.append(answer.status_code)
    assert statuses == [200, 429]
    assert "may have 3 facts a minute" in answer.json()["detail"]
    graph = (await http.get("/v1/graph", headers=caller)).json()
    assert [entity["name"] for entity in graph["entities"]] == ["now"]


async def test_writers_at_the_same_time_lose_nothing(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, NOW)
    texts = [f"observation {number}" for number in range(20)]
    await asyncio.gather(*(lead.add_observations(observed("now", text)) for text in texts))
    (entity,) = (await connect("lead").open_entities(names("now"))).entities
    assert sorted(entity.observations[1:]) == sorted(texts)


async def test_facts_outside_of_the_graph_hide_nothing_from_a_search(connect: Connect) -> None:
    lead = connect("lead")
    await created(lead, SHIP, NOW)
    for number in range(3):
        await lead.remember(FactIn(content=f"now {number}", kind="entity"))
        await lead.remember(FactIn(content=f"a release {number}", kind="observation"))
    graph = await lead.read_graph(contains="now", limit=1)
    assert [entity.name for entity in graph.entities] == ["now"]
    for number in range(25):
        await lead.remember(FactIn(content=f"Everybody knows {number}", kind="observation"))
    graph = await lead.read_graph(contains="Everybody knows", limit=1)
    assert [entity.name for entity in graph.entities] == ["Ship / the release"]
    assert graph.truncated is False


async def test_one_undo_reverts_a_whole_call(connect: Connect) -> None:
    lead = connect("lead")
    made = await created(lead, SHIP, NOW)
    await lead.undo(made.entities[0].id, ReasonIn(reason="another plan"))
    assert (await lead.read_graph()).entities == ()
    assert (await lead.list_facts(lifecycle="live")).facts == ()
    assert len((await created(lead, SHIP, NOW)).entities) == 2
    await lead.delete_entities(names("now", "Ship / the release"))
    (entity,) = (await lead.list_facts(contains="now", kind="entity", limit=1)).facts
    await lead.undo(entity.id, ReasonIn(reason="not yet"))
    assert {each.name for each in (await lead.read_graph()).entities} == {SHIP.name, NOW.name}


async def test_repeat_with_the_key_has_the_first_answer(connect: Connect) -> None:
    lead = connect("lead")
    ship = GraphEntitiesIn(entities=(SHIP, NOW))
    first = await lead.create_entities(ship, idempotency_key="1")
    assert await lead.create_entities(ship, idempotency_key="1") == first
    added = observed("now", "A draft exists.")
    answer = await lead.add_observations(added, idempotency_key="2")
    assert answer.observations[0].contents == ("A draft exists.",)
    assert await lead.add_observations(added, idempotency_key="2") == answer
    triple = relations(("now", "leads to", SHIP.name))
    related = await lead.create_relations(triple, idempotency_key="3")
    assert await lead.create_relations(triple, idempotency_key="3") == related
    assert len(related.relations) == 1
    ended = await lead.delete_relations(triple, idempotency_key="4")
    assert len(ended.relations) == 1
    assert await lead.delete_relations(triple, idempotency_key="4") == ended
    forgotten = await lead.delete_observations(added, idempotency_key="5")
    assert forgotten == answer
    assert await lead.delete_observations(added, idempotency_key="5") == forgotten
    gone = await lead.delete_entities(names("now"), idempotency_key="6")
    assert await lead.delete_entities(names("now"), idempotency_key="6") == gone
    assert gone.names == ("now",)
    assert await refused(created_again(lead), CODE.IDEMPOTENCY_CONFLICT)


async def created_again(client: AsyncKnowledgeClient) -> Graph:
    return await client.create_entities(GraphEntitiesIn(entities=(NOW,)), idempotency_key="1")


async def test_relations_and_deletions_count_towards_the_quota(connect: Connect) -> None:
    limited = connect("limited")
    await created(limited, *(GraphEntityIn(name=each, entity_type="x") for each in "abc"))
    triples = relations(("a", "supports", "b"), ("b", "supports", "c"), ("c", "supports", "a"))
    message = await refused(limited.create_relations(triples), CODE.QUOTA_EXCEEDED)
    assert "may have 3 writes a minute" in message
    assert (await limited.read_graph()).relations == ()


async def test_revised_entity_keeps_its_observations_and_relations(connect: Connect) -> None:
    lead = connect("lead")
    made = await created(lead, SHIP, NOW)
    await lead.create_relations(relations(("now", "leads to", SHIP.name)))
    revised = ReviseIn(reason="dated", data={"dueDate": "2026-05-01"})
    await lead.revise(made.entities[0].id, revised)
    await lead.add_observations(observed(SHIP.name, "It is dated."))
    graph = await lead.open_entities(names(SHIP.name, "now"))
    assert graph.entities[0].metadata == {"dueDate": "2026-05-01"}
    assert graph.entities[0].observations == (
        "The release is out.", "Everybody knows.", "It is dated.",
    )  # fmt: skip
    assert len(graph.relations) == 1
    matches = await lead.read_graph(contains="everybody knows")
    assert [entity.name for entity in matches.entities] == [SHIP.name]
