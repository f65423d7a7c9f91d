"""The tools of server-memory send what the service can read: items by number and by size."""

from types import SimpleNamespace

import pytest

from kais_cli.mcp import memory_tools

MIB = 1 << 20


class Knowledge:
    """Records the bodies that it is sent, and creates everything."""

    def __init__(self):
        self.bodies = []

    async def create_entities(self, body):
        self.bodies.append(body)
        return SimpleNamespace(
            entities=[
                SimpleNamespace(name=item.name, entity_type=item.entity_type)
                for item in body.entities
            ]
        )

    async def add_observations(self, body):
        self.bodies.append(body)
        return SimpleNamespace(observations=body.observations)


def entity(name, *, count, text):
    return {
        "name": name,
        "entityType": "ship",
        "observations": [f"{text}{n}" for n in range(count)],
    }


@pytest.mark.parametrize("text", ["x" * 8_000, "é" * 8_000])
async def test_entities_with_long_observations_are_sent_in_bodies_below_a_mib(text):
    knowledge = Knowledge()
    items = [entity(f"ship {n}", count=3, text=text) for n in range(50)]
    items.append(entity("fleet", count=150, text=text))
    arguments = memory_tools.EntitiesArguments.model_validate({"entities": items})
    answer = await memory_tools._create_entities(knowledge, arguments)
    assert len(answer.entities) == 51
    assert max(len(body.model_dump_json().encode()) for body in knowledge.bodies) < MIB
    sent = [
        text
        for body in knowledge.bodies
        for item in getattr(body, "entities", ()) or body.observations
        for text in (item.observations if hasattr(item, "observations") else item.contents)
    ]
    assert len(sent) == 50 * 3 + 150
