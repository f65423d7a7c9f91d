"""Principals and their permissions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_client.base_model import WireModel

Verb = Literal["read", "write", "review", "promote", "extract", "admin"]


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

    What was not used for up to a minute may be used at once.
    """

    writes_per_minute: int | None = Field(default=None, ge=1)
    facts_per_minute: int | None = Field(default=None, ge=1)
    bytes_per_minute: int | None = Field(default=None, ge=1)
    recalls_per_minute: int | None = Field(default=None, ge=1)
    reads_per_minute: int | None = Field(default=None, ge=1)


class PrincipalIn(WireModel):
    """A principal to register.

    Repeating it is harmless; another UID for the same username replaces it.
    """

    name: str
    type: Literal["human", "agent", "system"]
    subject: Subject
    home: str
    grants: tuple[Grant, ...] = Field(default=(), max_length=64)
    realm_uid: str | None = Field(default=None, description="UID of the home scope's namespace")
    quota: Quota | None = None


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
    grants: tuple[Grant, ...]
    mode: Literal["kubernetes", "token", "none"]
    store: StoreIdentity
