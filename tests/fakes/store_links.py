"""Links between facts, and who is near whom, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge_client.models import (
    Link,
    Linked,
    LinkPage,
    Neighbor,
    Neighborhood,
)
from knowledge_service.domain.access_control import View
from knowledge_service.errors import NotFound
from knowledge_service.event_log import times
from knowledge_service.ports import (
    Actor,
    IdempotencyKey,
    NeighbourQuery,
    NewLink,
)
from tests.fakes.store_base import Base
from tests.fakes.store_unit_of_work import MemoryUnitOfWork


class Links(Base):
    """The `LinkStore` port but for names."""

    def link(
        self,
        new: NewLink,
        view: View,
        *,
        actor: Actor,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Linked:
        def work() -> Linked:
            for end in (new.from_id, new.to_id):
                if not self.visible(end, view):
                    raise NotFound(f"fact {end} does not exist or is not visible to you")
            key = (new.from_id, new.to_id, new.type)
            live = [item for item in self._links_now() if (item.from_, item.to, item.type) == key]
            if live:
                return Linked(status="exists", link=live[0])
            uow = MemoryUnitOfWork(self)
            record = {
                "id": uow.new_id(), "from": new.from_id, "to": new.to_id, "type": new.type,
                "weight": new.weight, "data": new.data, "valid_from": times.to_us(new.valid_from),
                "valid_until": times.to_us(new.valid_until),
            }  # fmt: skip
            uow.record("link.made", scope=self._scope_of(new.from_id), actor=actor, parts=[record])
            link = next(item for item in self._links_now() if item.id == record["id"])
            return Linked(status="created", link=link)

        return self._once(idempotency_key, work)

    def unlink(self, from_id: str, to_id: str, kind: str, *, actor: Actor) -> bool:
        with self._lock:
            self._check()
            for link in self._links_now():
                if (link.from_, link.to, link.type) == (from_id, to_id, kind):
                    said = {"id": link.id, "from": from_id, "to": to_id}
                    scope = self._scope_of(from_id)
                    MemoryUnitOfWork(self).record(
                        "link.closed", scope=scope, actor=actor, parts=[said]
                    )
                    return True
            return False

    def links_of(self, fact_id: str, view: View) -> list[Link]:
        """Return live and closed links whose ends are both seen, the newest first."""
        links = [
            link
            for link in self._every_link()
            if fact_id in (link.from_, link.to)
            and self.visible(link.from_, view)
            and self.visible(link.to, view)
        ]
        return sorted(links, key=lambda link: link.id, reverse=True)

    def links(
        self, fact_id: str, view: View, *, types: Sequence[str], before_id: str | None, limit: int
    ) -> LinkPage:
        self._check()
        matching_links = [
            each
            for each in self.links_of(fact_id, view)
            if (not types or each.type in types) and (before_id is None or each.id < before_id)
        ]
        page = tuple(matching_links[:limit])
        return LinkPage(links=page, cursor=page[-1].id if len(matching_links) > limit else None)

    def links_among(self, fact_ids: Sequence[str], view: View) -> tuple[Link, ...]:
        self._check()
        visible = {each for each in fact_ids if self.visible(each, view)}
        links = [each for each in self._links_now() if {each.from_, each.to} <= visible]
        return tuple(sorted(links, key=lambda each: each.id))

    def links_from(
        self, fact_ids: Sequence[str], view: View, *, to_kind: str, limit: int
    ) -> tuple[Link, ...]:
        self._check()
        links = [
            each
            for each in self._links_now()
            if each.from_ in fact_ids
            and self.visible(each.from_, view)
            and self._walkable(each.to, view)
            and self._fact(each.to).kind == to_kind
        ]
        return tuple(sorted(links, key=lambda each: each.id)[:limit])

    def neighbors(self, query: NeighbourQuery, view: View) -> Neighborhood:
        self._check()
        live = [
            each
            for each in self._links_now()
            if (not query.types or each.type in query.types)
            and self._walkable(each.from_, view)
            and self._walkable(each.to, view)
        ]
        observed, level = {query.fact_id}, [query.fact_id]
        order: list[tuple[int, str]] = []
        for depth in range(1, query.depth + 1):
            ends = {each.to for each in live if each.from_ in level}
            ends |= {each.from_ for each in live if each.to in level}
            level = sorted(ends - observed)
            observed |= set(level)
            order += [(depth, each) for each in level]
        chosen = order[: query.limit]
        among = {query.fact_id, *(fact for _, fact in chosen)}
        return Neighborhood(
            facts=tuple(Neighbor(depth=d, fact=self._fact(each)) for d, each in chosen),
            links=tuple(
                sorted(
                    (each for each in live if {each.from_, each.to} <= among),
                    key=lambda each: each.id,
                )
            ),
            truncated=len(order) > query.limit,
        )

    def _walkable(self, fact_id: str, view: View) -> bool:
        return self.visible(fact_id, view) and self._fact(fact_id).lifecycle == "live"

    def _links_now(self) -> list[Link]:
        return [each for each in self._every_link() if each.closed_at is None]

    def _every_link(self) -> Iterator[Link]:
        closed = {
            part["id"]: times.from_us(event.at)
            for event in self.book.log
            if event.type == "link.closed"
            for part in event.remaining_parts()
        }
        for event in self.book.log:
            for part in event.remaining_parts() if event.type == "link.made" else ():
                is_live = part["id"] in self.book.links
                if is_live or part["id"] in self.book.closed_links:
                    yield Link(
                        id=part["id"], from_=part["from"], to=part["to"], type=part["type"],
                        weight=part.get("weight"), data=part.get("data"),
                        valid_from=times.from_us(part.get("valid_from")),
                        valid_until=times.from_us(part.get("valid_until")),
                        recorded_at=times.from_us(event.at), actor=event.actor,
                        closed_at=None if is_live else closed[part["id"]],
                    )  # fmt: skip
