"""Names of facts besides their ids, and numbers that are given once, in memory."""

from __future__ import annotations

from knowledge_client.models import Alias
from knowledge_service.domain.access_control import View
from knowledge_service.domain.aliases import Name
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

    def _names_of(self, fact_id: str) -> list[Alias]:
        return [
            Alias(namespace=namespace, value=value)
            for _, namespace, value in self.names_of(fact_id)
        ]
