"""Principals and their permissions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_client.base_model import WireModel

Verb = Literal["read", "remember", "write", "review", "promote", "extract", "admin"]
"""A verb that a principal may have on a scope.

`remember` stores facts and confirms those of others, but changes only facts of the same author;
`write` changes all facts, and includes it.
"""


class Grant(WireModel):
    """Verbs on one scope, or on it and all below it."""

    scope: str
    subtree: bool = False
    verbs: tuple[Verb, ...]


class Subject(WireModel):
    """The Kubernetes user of a principal: its name and the UID of the ServiceAccount."""

    username: str
    uid: str | None = None


class Quota(WireModel):
    """How much a principal may do in a minute; absent means the service's own default.

    The unused part of up to a minute may be used at once.
    """

    writes_per_minute: int | None = Field(default=None, ge=1)
    facts_per_minute: int | None = Field(default=None, ge=1)
    bytes_per_minute: int | None = Field(default=None, ge=1)
    recalls_per_minute: int | None = Field(default=None, ge=1)
    reads_per_minute: int | None = Field(default=None, ge=1)


class CellAddress(WireModel):
    """The place of a cell in its formation, and the cells that it may speak to.

    A peer is a short name (`worker-0`), or `worker-*` for every replica of a template.
    """

    formation: str = Field(min_length=1, max_length=253)
    cell: str = Field(min_length=1, max_length=253)
    peers: tuple[str, ...] = Field(default=(), max_length=1024)


class PrincipalIn(WireModel):
    """A principal to register.

    Repeating it is harmless; another UID for the same username replaces it.
    """

    name: str
    type: Literal["human", "agent", "system"]
    subject: Subject
    home: str
    default_scope: str | None = Field(
        default=None, description="scope of facts that name none; by default the home"
    )
    grants: tuple[Grant, ...] = Field(default=(), max_length=64)
    realm_uid: str | None = Field(default=None, description="UID of the home scope's namespace")
    quota: Quota | None = None
    address: CellAddress | None = Field(
        default=None, description="the cell of the account; absent if several cells share it"
    )


class PrincipalPage(WireModel):
    """The principals that the caller may see, by name."""

    principals: tuple[PrincipalIn, ...]


class StoreIdentity(WireModel):
    """Identity of the store.

    `epoch` changes when registrations must be repeated, as after a restore.
    """

    id: str
    epoch: int


class WhoAmI(WireModel):
    """The principal of the caller."""

    name: str
    type: Literal["human", "agent", "system"]
    home: str
    default_scope: str | None = Field(default=None, description="scope of facts that name none")
    grants: tuple[Grant, ...]
    mode: Literal["kubernetes", "token", "none"]
    store: StoreIdentity
