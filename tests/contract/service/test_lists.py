"""Lists of facts by what they are about, by schema, subject, part of a text, alias and links."""

from __future__ import annotations

import pytest

from knowledge_client import errors
from knowledge_client.models import AliasIn, FactIn, FactPage, LinkIn
from tests.contract.service.callers import Connect
from tests.knowledge_builders import LEAD, TEAM


def contents(page: FactPage) -> list[str]:
    return [fact.content for fact in page.facts]


async def test_facts_about_another_are_listed_in_their_positions(connect: Connect) -> None:
    lead = connect("lead")
    name = AliasIn(namespace="entity", value="ship")
    ship = (await lead.remember(FactIn(content="ship", kind="entity", aliases=(name,)))).fact_id
    positions = {"last": None, "third": 7, "first": -2, "second": 0, "also last": None}
    for content, position in positions.items():
        await lead.remember(FactIn(content=content, about=ship, position=position))
    await lead.remember(FactIn(content="about nothing"))
    expected = ["first", "second", "third", "last", "also last"]
    for reference in (ship, "alias:entity:ship"):
        assert contents(await lead.list_facts(about=reference)) == expected
    listed, cursor = [], None
    while True:
        page = await lead.list_facts(about=ship, limit=2, cursor=cursor)
        listed += contents(page)
        cursor = page.cursor
        if cursor is None:
            break
    assert listed == expected
    known_at = (await lead.get_fact(ship)).recorded_at
    assert contents(await lead.list_facts(about=ship, known_at=known_at)) == []
    assert contents(await lead.list_facts(about="alias:entity:boat")) == []


async def test_cursor_of_another_list_is_refused(connect: Connect) -> None:
    lead = connect("lead")
    for number in range(3):
        await lead.remember(FactIn(content=f"fact {number}"))
    cursor = (await lead.list_facts(limit=1)).cursor
    with pytest.raises(errors.InvalidRequest, match="invalid cursor"):
        await lead.list_facts(about="x", cursor=cursor)


async def test_facts_are_listed_by_schema_and_subject(connect: Connect) -> None:
    lead = connect("lead")
    await lead.remember(FactIn(content="a block", data={"a": 1}, schema_="block/1"))
    await lead.remember(FactIn(content="a crane", subject="crane", predicate="lifts"))
    assert contents(await lead.list_facts(schema="block/1")) == ["a block"]
    assert contents(await lead.list_facts(subject="crane")) == ["a crane"]
    assert contents(await lead.list_facts(schema="block")) == []


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("ONE%", ["100 % of one% here"]),
        ("a_b", ["a_b"]),
        ("back\\slash", ["back\\slash"]),
        ("STRASSE", []),
        ("ÜBER", ["über"]),
        ("crane", ["lifts"]),
        ("A TITLE", ["titled"]),
        ("nothing of this", []),
        ("\0", ["nul\0Byte é"]),
        ("BYTE", ["nul\0Byte é"]),
        ("ova\0", []),
    ],
)
async def test_facts_are_listed_by_a_part_of_their_texts(
    connect: Connect, part: str, expected: list[str]
) -> None:
    lead = connect("lead")
    for content in (
        "100 % of one% here",
        "a_b",
        "axb",
        "back\\slash",
        "die Straße",
        "über",
        "nova",
    ):
        await lead.remember(FactIn(content=content))
    await lead.remember(FactIn(content="lifts", subject="The Crane", predicate="does"))
    await lead.remember(FactIn(content="titled", title="A title"))
    await lead.remember(FactIn(content="nul\0Byte é"))
    listed = await lead.list_facts(contains=part)
    assert contents(listed) == expected
    page = await lead.list_facts(contains=part, limit=1)
    assert contents(page) == contents(listed)[:1]


async def test_facts_are_listed_by_the_namespace_of_their_aliases(connect: Connect) -> None:
    lead = connect("lead")
    for namespace in ("entity", "ko"):
        alias = AliasIn(namespace=namespace, value="x")
        await lead.remember(FactIn(content=f"named in {namespace}", aliases=(alias,)))
    await lead.remember(FactIn(content="without a name"))
    assert contents(await lead.list_facts(alias_namespace="entity")) == ["named in entity"]


async def test_a_link_that_the_caller_cannot_see_leaves_a_fact_unlinked(connect: Connect) -> None:
    lead, ada = connect("lead"), connect("ada")
    shared = {
        name: (await ada.remember(FactIn(content=name, scope=TEAM))).fact_id
        for name in ("alone", "linked", "linked too", "linked to a cell")
    }
    await ada.link(LinkIn(from_=shared["linked"], to=shared["linked too"]))
    own_id = (await lead.remember(FactIn(content="own"))).fact_id
    await lead.link(LinkIn(from_=own_id, to=shared["linked to a cell"]))
    peer = connect("peer")
    assert contents(await peer.list_facts(unlinked=True)) == ["linked to a cell", "alone"]
    assert contents(await lead.list_facts(unlinked=True)) == ["alone"]
    assert contents(await lead.list_facts(unlinked=True, scope=LEAD)) == []
    await ada.unlink(shared["linked"], shared["linked too"], "related")
    assert "linked too" in contents(await peer.list_facts(unlinked=True))
    draft = FactIn(content="a draft", scope=TEAM, review="draft")
    hidden = (await ada.remember(draft)).fact_id
    await ada.link(LinkIn(from_=hidden, to=shared["alone"]))
    assert "alone" in contents(await peer.list_facts(unlinked=True))
    assert "alone" not in contents(await ada.list_facts(unlinked=True))


async def test_facts_are_listed_by_the_beginning_of_their_ids(connect: Connect) -> None:
    lead, peer = connect("lead"), connect("peer")
    ids = [
        (await lead.remember(FactIn(content=f"fact {number}", scope=LEAD))).fact_id
        for number in range(3)
    ]
    for number, id_ in enumerate(ids):
        for beginning in (id_, id_[:-1]):
            page = await lead.list_facts(id_prefix=beginning)
            assert contents(page) == [f"fact {number}"]
            assert page.cursor is None
            assert (await peer.list_facts(id_prefix=beginning)).facts == ()
    first = await lead.list_facts(id_prefix=ids[0][:4], limit=2)
    assert contents(first) == ["fact 2", "fact 1"]
    second = await lead.list_facts(id_prefix=ids[0][:4], limit=2, cursor=first.cursor)
    assert contents(second)[0] == "fact 0"
    for beginning in ("ffff", "0000"):
        assert (await lead.list_facts(id_prefix=beginning)).facts == ()
    with pytest.raises(errors.InvalidRequest):
        await lead.list_facts(id_prefix="x%")
