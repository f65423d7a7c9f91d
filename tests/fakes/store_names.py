"""Names of facts besides their ids, and numbers that are given once, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_client.models import (
    Alias,
    AliasIn,
    Remembered,
)
from knowledge_service.domain import aliases
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict
from tests.fakes.store_base import Base


class Names(Base):
    """The names of the `LinkStore` port."""

    def named(self, name: Name, view: View) -> tuple[tuple[str, str], ...]:
        self._check()
        return tuple(
            (scope, fact_id)
            for (scope, namespace, value), fact_id in sorted(self._names.items())
            if (namespace, value) == (name.namespace, name.value) and self.visible(fact_id, view)
        )

    def name_all(
        self, facts: Sequence[NewFact], stored: Sequence[Remembered]
    ) -> tuple[Remembered, ...]:
        """Give facts that were just stored their names, all or none."""
        names, last = dict(self._names), dict(self._sequences)
        try:
            return tuple(
                one.model_copy(
                    update={"aliases": tuple(self._give(new, a, one.fact_id) for a in new.aliases)}
                )
                if new.aliases
                else one
                for new, one in zip(facts, stored, strict=True)
            )
        except Conflict:
            self._names, self._sequences = names, last
            raise

    def _give(self, new: NewFact, wanted: AliasIn, fact_id: str) -> Alias:
        prefix, value = wanted.prefix or "", wanted.value
        if value is None:
            for alias in self._names_of(fact_id):
                rest = alias.value.removeprefix(prefix)
                if alias.namespace == wanted.namespace and rest.isdecimal():
                    return alias
            key = (new.scope, wanted.namespace, prefix)
            while value is None or (new.scope, wanted.namespace, value) in self._names:
                self._sequences[key] = self._sequences.get(key, 0) + 1
                value = aliases.numbered(prefix, wanted.digits, self._sequences[key])
        alias = Alias(namespace=wanted.namespace, value=value)
        holder = self._names.setdefault((new.scope, alias.namespace, alias.value), fact_id)
        if holder != fact_id:
            raise Conflict(f"{aliases.reference(alias)} is a name of fact {holder}; take another")
        return alias

    def rename(self, old_id: str, new_id: str) -> None:
        """Let a fact's names go on to its successor."""
        for key, fact_id in self._names.items():
            if fact_id == old_id:
                self._names[key] = new_id

    def _names_of(self, fact_id: str) -> list[Alias]:
        return [
            Alias(namespace=namespace, value=value)
            for (_, namespace, value), named in sorted(self._names.items())
            if named == fact_id
        ]
