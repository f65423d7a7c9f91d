"""Indexes of the graph: texts by trigrams, entities by age, facts about a fact in their order.

The rows of `trigram` are facts; a row's number holds scope, kind and number of the fact, so that a
search reads one scope. Erased entries leave its pages at once (`secure-delete`).
"""

from __future__ import annotations

SQLITE = """
CREATE VIRTUAL TABLE trigram USING fts5(
  grams, content='', columnsize=0, detail=none, prefix='1 2', tokenize='ascii');
INSERT INTO trigram(trigram, rank) VALUES('secure-delete', 1);
CREATE INDEX fact_entity ON fact(scope_no, id) WHERE kind = 'entity' AND lifecycle = 'live';
DROP INDEX fact_about;
CREATE INDEX fact_about ON fact(
  about, scope_no, kind, lifecycle, coalesce(position, 1152921504606846976), id)
  WHERE about IS NOT NULL;
"""
