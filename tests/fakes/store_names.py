"""Names of facts besides their ids, and numbers that are given once, in memory."""

from __future__ import annotations

from knowledge_client.models import Alias, NamedFact
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
from knowledge_service.ports import AliasListing
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

    def list_aliases(self, listing: AliasListing) -> tuple[NamedFact, ...]:
        self._check()
        scopes = self._paths(listing.view, listing.scopes)
        found = sorted(
            (value, scope, fact_id)
            for (scope, namespace, value), fact_id in self._names.items()
            if namespace == listing.namespace and value.startswith(listing.prefix)
            if scope in scopes and (value, scope) > (listing.after or ("", ""))
            if self.visible(fact_id, listing.view) and self._fact(fact_id).lifecycle != "retracted"
        )
        return tuple(
            NamedFact(namespace=listing.namespace, value=value, scope=scope, fact_id=fact_id)
            for value, scope, fact_id in found[: listing.limit]
        )

    def _names_of(self, fact_id: str) -> list[Alias]:
        return [
            Alias(namespace=namespace, value=value)
            for _, namespace, value in self.names_of(fact_id)
        ]
