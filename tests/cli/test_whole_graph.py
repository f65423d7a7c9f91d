"""The graph as server-memory shows it: whole, or refused with what to do, never a part of it."""

from types import SimpleNamespace

import pytest

from kais_cli import errors
from kais_cli.graph import whole_graph
from knowledge_client import models

ENTITIES = 10_400


class Knowledge:
    """A service with more entities than an answer may have, all related to the first one."""

    def __init__(self, relations_of_a_page=200):
        self.relations_of_a_page = relations_of_a_page

    def read_graph(self, *, contains=None, cursor=None, limit, outgoing=False):
        start = int(cursor or 0)
        numbers = range(start, min(ENTITIES, start + limit))
        entities = tuple(
            models.GraphEntity(
                id=f"e{n:06}", scope="realm:demo", name=f"ship {n}", entity_type="ship"
            )
            for n in numbers
        )
        if contains is not None:
            return models.Graph(entities=entities, relations=(), truncated=True)
        relations = tuple(
            models.GraphRelation(from_=f"ship {n}", to="ship 0", relation_type=f"follows {more}")
            for n in numbers
            for more in range(self.relations_of_a_page // limit)
        )
        next_cursor = str(start + limit) if start + limit < ENTITIES else None
        return models.Graph(entities=entities, relations=relations, cursor=next_cursor)

    def open_entities(self, body):
        return self.read_graph(limit=1)

    def neighbors(self, fact_id, *, limit):
        return SimpleNamespace(truncated=True, facts=(), links=())

    def facts(self, **_):
        raise AssertionError("the entities have no observations")


def test_every_relation_of_an_entity_with_many_is_returned_from_a_graph_of_any_size():
    graph = whole_graph.open_entities(Knowledge(), ["ship 0"])
    assert len(graph.relations) == ENTITIES


def test_a_graph_that_is_too_large_is_refused_with_the_tools_that_can_read_it():
    with pytest.raises(errors.Refused, match="use search_nodes or open_nodes"):
        whole_graph.read(Knowledge())


def test_a_text_that_too_many_entities_contain_is_refused_with_what_to_do():
    with pytest.raises(errors.Refused, match="search for a longer one"):
        whole_graph.search(Knowledge(), "ship")


def test_relations_that_the_service_leaves_out_are_never_lost_without_a_word():
    with pytest.raises(errors.Refused, match="more than 10,000 relations lead from 'ship 0'"):
        whole_graph.open_entities(Knowledge(relations_of_a_page=10_000), ["ship 0"])
