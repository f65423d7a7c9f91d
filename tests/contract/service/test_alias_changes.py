"""Aliases that a fact gets, loses and passes on, and those that are unique in a realm."""

from __future__ import annotations

import asyncio

from knowledge_client import AsyncKnowledgeClient, errors
from knowledge_client.models import (
    AliasIn,
    AliasRemovalIn,
    AliasSetIn,
    CorrectIn,
    FactIn,
    GraphEntitiesIn,
    GraphEntityIn,
    GraphNamesIn,
    GraphRelationIn,
    GraphRelationsIn,
    OperationIn,
    ReasonIn,
    RememberAct,
    ReviseIn,
    SetAliasAct,
)
from tests.contract.service.callers import Connect, refused, told
from tests.knowledge_builders import LEAD, TEAM

CODE = errors.ErrorCode
REASON = ReasonIn(reason="by mistake")


def named(value: str, *, move: bool = False, namespace: str = "file") -> AliasSetIn:
    return AliasSetIn(namespace=namespace, value=value, move=move, reason="a better name")


def freed(value: str, *, namespace: str = "file") -> AliasRemovalIn:
    return AliasRemovalIn(namespace=namespace, value=value, reason="a better name")


async def listed(client: AsyncKnowledgeClient, namespace: str = "file") -> dict[str, str]:
    page = await client.list_aliases(namespace)
    return {each.value: each.fact_id for each in page.aliases}


class TestAdding:
    async def test_a_fact_gets_a_further_alias(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id = await told(ada, "Java 25", TEAM)
        result = await ada.set_alias(fact_id, named("a/b ~c"))
        assert (result.namespace, result.value) == ("file", "a/b ~c")
        assert (result.fact_id, result.scope) == (fact_id, TEAM)
        assert (await ada.get_fact("alias:file:a~1b ~0c")).id == fact_id
        assert await ada.set_alias("alias:file:a~1b ~0c", named("a/b ~c")) == result
        assert await listed(ada) == {"a/b ~c": fact_id}

    async def test_a_number_is_taken_from_a_sequence(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id, other_id = await told(ada, "a", TEAM), await told(ada, "b", TEAM)
        numbered = AliasSetIn(namespace="file", prefix="global:", digits=3, reason="for the file")
        assert (await ada.set_alias(fact_id, numbered)).value == "global:001"
        assert (await ada.set_alias(fact_id, numbered)).value == "global:001"
        assert (await ada.set_alias(other_id, numbered)).value == "global:002"

    async def test_a_request_is_done_once_with_its_key(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id = await told(ada, "a", TEAM)
        first = await ada.set_alias(fact_id, named("x"), idempotency_key="name-it")
        await ada.remove_alias(fact_id, freed("x"), idempotency_key="free-it")
        assert await ada.set_alias(fact_id, named("x"), idempotency_key="name-it") == first
        assert await ada.remove_alias(fact_id, freed("x"), idempotency_key="free-it") == first
        assert await listed(ada) == {}

    async def test_undo_takes_an_alias_back(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id = await told(ada, "a", TEAM)
        await ada.set_alias(fact_id, named("x"))
        undone = await ada.undo(fact_id, REASON)
        assert (undone.undone, undone.changed) == ("alias.set", (fact_id,))
        assert await listed(ada) == {}
        assert (await ada.get_fact(fact_id)).lifecycle == "live"
        types = [event.type for event in (await ada.history(fact_id)).entries]
        assert types.count("alias.set") == types.count("alias.removed") == 1

    async def test_a_closed_fact_gets_no_alias(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id = await told(ada, "a", TEAM)
        await ada.retract(fact_id, ReasonIn(reason="gone"))
        detail = await refused(ada.set_alias(fact_id, named("x")), CODE.CONFLICT)
        assert detail.endswith("only live facts get aliases")

    async def test_an_operation_names_the_fact_that_it_remembers(self, connect: Connect) -> None:
        ada = connect("ada")
        other_id = await told(ada, "b", TEAM)
        alias = AliasIn(namespace="file", value="x")
        acts = (
            RememberAct(fact=FactIn(content="a", scope=TEAM)),
            SetAliasAct(fact="act:0", alias=alias),
        )
        done = await ada.perform(OperationIn(reason="both", acts=acts))
        assert [each.status for each in done.results] == ["created", "alias_set"]
        assert await listed(ada) == {"x": done.results[0].fact_id}
        second = OperationIn(
            reason="both",
            acts=(
                RememberAct(fact=FactIn(content="c", scope=TEAM)),
                SetAliasAct(fact=other_id, alias=alias),
            ),
        )
        await refused(ada.perform(second), CODE.CONFLICT)
        assert all(fact.content != "c" for fact in (await ada.list_facts()).facts)


class TestMoving:
    async def test_an_alias_is_only_moved_on_request(self, connect: Connect) -> None:
        ada = connect("ada")
        old_id, new_id = await told(ada, "a", TEAM), await told(ada, "b", TEAM)
        await ada.set_alias(old_id, named("x"))
        detail = await refused(ada.set_alias(new_id, named("x")), CODE.CONFLICT)
        assert detail.endswith(f"alias:file:x is a name of fact {old_id}; take another")
        await ada.set_alias(new_id, named("x", move=True))
        assert await listed(ada) == {"x": new_id}

    async def test_undo_of_either_fact_moves_an_alias_back(self, connect: Connect) -> None:
        ada = connect("ada")
        ids = await told(ada, "a", TEAM), await told(ada, "b", TEAM)
        await ada.set_alias(ids[0], named("x"))
        for fact_id in ids:
            await ada.set_alias(ids[1], named("x", move=True))
            await ada.undo(fact_id, REASON)
            assert await listed(ada) == {"x": ids[0]}

    async def test_nobody_takes_an_alias_of_a_fact_that_it_may_not_change(
        self, connect: Connect
    ) -> None:
        lead, ada = connect("lead"), connect("ada")
        theirs = await told(ada, "of a person", TEAM)
        taken = named("shop-7", namespace="ko-issue")
        await ada.set_alias(theirs, taken)
        own = await told(lead, "of an agent", LEAD)
        moved = taken.model_copy(update={"move": True})
        detail = await refused(lead.set_alias(own, moved), CODE.FORBIDDEN)
        assert f"may read fact {theirs} but not move alias:ko-issue:shop-7 from it" in detail
        await refused(lead.set_alias(theirs, named("y")), CODE.FORBIDDEN)
        body = freed("shop-7", namespace="ko-issue")
        await refused(lead.remove_alias(theirs, body), CODE.FORBIDDEN)
        assert await listed(ada, "ko-issue") == {"shop-7": theirs}


class TestFreeing:
    async def test_a_freed_alias_can_be_taken(self, connect: Connect) -> None:
        ada = connect("ada")
        old_id, new_id = await told(ada, "a", TEAM), await told(ada, "b", TEAM)
        await ada.set_alias(old_id, named("x"))
        assert (await ada.remove_alias(old_id, freed("x"))).fact_id == old_id
        await refused(ada.get_fact("alias:file:x"), CODE.NOT_FOUND)
        await ada.set_alias(new_id, named("x"))
        assert await listed(ada) == {"x": new_id}
        detail = await refused(ada.undo(old_id, REASON), CODE.CONFLICT)
        assert "alias:file:x" in detail

    async def test_undo_gives_an_alias_back(self, connect: Connect) -> None:
        ada = connect("ada")
        fact_id = await told(ada, "a", TEAM)
        await ada.set_alias(fact_id, named("x"))
        await ada.remove_alias(fact_id, freed("x"))
        await ada.undo(fact_id, REASON)
        assert await listed(ada) == {"x": fact_id}

    async def test_an_alias_of_another_fact_is_not_freed(self, connect: Connect) -> None:
        ada = connect("ada")
        old_id, new_id = await told(ada, "a", TEAM), await told(ada, "b", TEAM)
        await ada.set_alias(old_id, named("x"))
        detail = await refused(ada.remove_alias(new_id, freed("x")), CODE.NOT_FOUND)
        assert detail == f"alias:file:x is not a name of fact {new_id}"
        assert await listed(ada) == {"x": old_id}


class TestRenamedEntities:
    async def test_a_renamed_entity_is_opened_by_both_names(self, connect: Connect) -> None:
        lead = connect("lead")
        entities = (
            GraphEntityIn(name="Ada", entity_type="person", observations=("counts",)),
            GraphEntityIn(name="Bob", entity_type="person"),
        )
        first = (await lead.create_entities(GraphEntitiesIn(entities=entities))).entities[0]
        revised = await lead.revise(first.id, ReviseIn(reason="married", content="Ada King"))
        for name in ("Ada", "Ada King"):
            graph = await lead.open_entities(GraphNamesIn(names=(name,)))
            assert [(each.name, each.observations) for each in graph.entities] == [
                ("Ada King", ("counts",))
            ]
        relation = GraphRelationIn(from_="Ada King", to="Bob", relation_type="knows")
        related = await lead.create_relations(GraphRelationsIn(relations=(relation,)))
        assert [each.from_ for each in related.relations] == ["Ada King"]

        repeated = GraphEntitiesIn(entities=(GraphEntityIn(name="Ada King", entity_type="person"),))
        assert (await lead.create_entities(repeated)).entities == ()
        for _ in ("relation", "revision"):
            await lead.undo(revised.successor_id, REASON)
        assert (await lead.open_entities(GraphNamesIn(names=("Ada King",)))).entities == ()
        (ada,) = (await lead.open_entities(GraphNamesIn(names=("Ada",)))).entities
        assert ada.name == "Ada"

    async def test_a_correction_renames_as_well(self, connect: Connect) -> None:
        lead = connect("lead")
        body = GraphEntitiesIn(entities=(GraphEntityIn(name="Ada", entity_type="person"),))
        (entity,) = (await lead.create_entities(body)).entities
        await lead.correct(entity.id, CorrectIn(reason="typing error", replacement="Ava"))
        (renamed,) = (await lead.open_entities(GraphNamesIn(names=("Ava",)))).entities
        assert renamed.name == "Ava"
        deleted = await lead.delete_entities(GraphNamesIn(names=("Ada",)))
        assert deleted.names == ("Ada",)

    async def test_a_name_of_another_entity_is_refused(self, connect: Connect) -> None:
        lead = connect("lead")
        names = [GraphEntityIn(name=name, entity_type="person") for name in ("Ada", "Bob")]
        ada, bob = (await lead.create_entities(GraphEntitiesIn(entities=tuple(names)))).entities
        refusal = lead.revise(ada.id, ReviseIn(reason="by mistake", content="Bob"))
        detail = await refused(refusal, CODE.CONFLICT)
        assert bob.id in detail
        robot = GraphEntityIn(name="Cyd", entity_type="robot")
        (cyd,) = (await lead.create_entities(GraphEntitiesIn(entities=(robot,)))).entities
        refusal = lead.revise(cyd.id, ReviseIn(reason="by mistake", content="Ada"))
        detail = await refused(refusal, CODE.CONFLICT)
        assert ada.id in detail
        too_long = ReviseIn(reason="by mistake", content="x" * 513)
        await refused(lead.revise(ada.id, too_long), CODE.INVALID_BODY)
        (same,) = (await lead.open_entities(GraphNamesIn(names=("Ada",)))).entities
        assert same.id == ada.id


class TestUniqueInARealm:
    async def test_an_issue_has_one_object_in_all_scopes(self, connect: Connect) -> None:
        ada = connect("ada")
        issue = (AliasIn(namespace="ko-issue", value="shop-7"),)
        bodies = [
            FactIn(content=f"in {scope}", scope=scope, aliases=issue) for scope in (TEAM, LEAD)
        ]
        answers = await asyncio.gather(
            *(ada.remember(body) for body in bodies), return_exceptions=True
        )
        refusals = [each for each in answers if isinstance(each, errors.Conflict)]
        assert len(refusals) == 1
        assert len(await listed(ada, "ko-issue")) == 1

    async def test_numbers_of_knowledge_objects_differ_between_scopes(
        self, connect: Connect
    ) -> None:
        ada = connect("ada")
        number = (AliasIn(namespace="ko", prefix="KO-shop-", digits=3),)
        bodies = [
            FactIn(content=f"{text} in {scope}", scope=scope, aliases=number)
            for text in "abc"
            for scope in (TEAM, LEAD)
        ]
        results = await asyncio.gather(*(ada.remember(body) for body in bodies))
        values = [each.aliases[0].value for each in results]
        assert sorted(values) == [f"KO-shop-00{n}" for n in range(1, 7)]

    async def test_two_creations_of_an_entity_at_once_make_one(self, connect: Connect) -> None:
        ada = connect("ada")
        bodies = [
            GraphEntitiesIn(
                scope=scope, entities=(GraphEntityIn(name="Ada", entity_type="person"),)
            )
            for scope in (TEAM, LEAD)
        ]
        await asyncio.gather(*(ada.create_entities(body) for body in bodies))
        assert len(await listed(ada, "entity")) == 1

    async def test_a_fact_whose_name_was_taken_elsewhere_is_not_restored(
        self, connect: Connect
    ) -> None:
        ada = connect("ada")
        issue = (AliasIn(namespace="ko-issue", value="shop-7"),)
        old = await ada.remember(FactIn(content="a", scope=TEAM, aliases=issue))
        await ada.retract(old.fact_id, ReasonIn(reason="gone"))
        new = await ada.remember(FactIn(content="b", scope=LEAD, aliases=issue))
        for attempt in (ada.restore, ada.undo):
            detail = await refused(attempt(old.fact_id, REASON), CODE.CONFLICT)
            assert detail == "alias:ko-issue:shop-7 is a name of another fact; free it first"
        body = freed("shop-7", namespace="ko-issue")
        await ada.remove_alias(new.fact_id, body)
        assert (await ada.restore(old.fact_id, REASON)).lifecycle == "live"
        assert await listed(ada, "ko-issue") == {"shop-7": old.fact_id}

    async def test_an_alias_moves_between_scopes(self, connect: Connect) -> None:
        ada = connect("ada")
        old_id, new_id = await told(ada, "a", TEAM), await told(ada, "b", LEAD)
        await ada.set_alias(old_id, named("shop-7", namespace="ko-issue"))
        await refused(ada.set_alias(new_id, named("shop-7", namespace="ko-issue")), CODE.CONFLICT)
        await ada.set_alias(new_id, named("shop-7", namespace="ko-issue", move=True))
        assert await listed(ada, "ko-issue") == {"shop-7": new_id}
        await ada.undo(new_id, REASON)
        assert await listed(ada, "ko-issue") == {"shop-7": old_id}
