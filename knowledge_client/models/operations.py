"""Operations of several acts: all of them or none, with one undo.

`act:N` stands for the fact of act N of the same operation, counted from 0, wherever an act takes a
reference, and as `about` of a fact to remember.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from knowledge_client.base_model import Reason, UtcDatetime, WireModel
from knowledge_client.models.facts import Alias, AliasIn, FactIn, Tag
from knowledge_client.models.links import LINK_TYPE, LinkIn

Reference = Annotated[str, Field(min_length=1, max_length=1200)]


class FactChanges(WireModel):
    """The changes of a revision: only the fields that are set; null removes a value."""

    title: str | None = Field(default=None, max_length=200)
    content: str | None = Field(default=None, min_length=1, max_length=8192)
    data: Any = None
    tags: tuple[Tag, ...] | None = Field(default=None, max_length=32)
    subject: str | None = Field(default=None, max_length=512)
    confidence: float | None = Field(default=None, ge=0, le=1)
    expires_at: UtcDatetime | None = None


class ReviseIn(FactChanges):
    """A revision: what changes, and why."""

    reason: Reason


class Revised(WireModel):
    """The revised fact, its successor, and its promoted copies as in `CorrectionResult`."""

    fact_id: str
    successor_id: str
    copies_retracted: tuple[str, ...] = ()
    copies_flagged: tuple[str, ...] = ()


class RememberAct(WireModel):
    """Remember a fact."""

    act: Literal["remember"] = "remember"
    fact: FactIn


class ReviseAct(WireModel):
    """Revise a fact."""

    act: Literal["revise"] = "revise"
    fact: Reference
    changes: FactChanges


class RetractAct(WireModel):
    """Retract a fact."""

    act: Literal["retract"] = "retract"
    fact: Reference


class LinkAct(WireModel):
    """Link two facts; an existing link of the type is not changed."""

    act: Literal["link"] = "link"
    link: LinkIn


class UnlinkAct(WireModel):
    """Remove a link, if it exists."""

    act: Literal["unlink"] = "unlink"
    from_: Reference = Field(alias="from")
    to: Reference
    type: str = Field(default="related", pattern=LINK_TYPE)


class SetAliasAct(WireModel):
    """Assign an alias to a fact; with `move`, a fact that has it loses it."""

    act: Literal["set_alias"] = "set_alias"
    fact: Reference
    alias: AliasIn
    move: bool = False


class RemoveAliasAct(WireModel):
    """Free an alias of a fact, if the fact has it."""

    act: Literal["remove_alias"] = "remove_alias"
    fact: Reference
    alias: Alias


Act = Annotated[
    RememberAct | ReviseAct | RetractAct | LinkAct | UnlinkAct | SetAliasAct | RemoveAliasAct,
    Field(discriminator="act"),
]


class AliasSetIn(AliasIn):
    """An alias to assign; with `move`, a fact that has it loses it."""

    move: bool = False
    reason: Reason


class AliasRemovalIn(Alias):
    """An alias to free."""

    reason: Reason


class OperationIn(WireModel):
    """Acts to do in order, all or none."""

    reason: Reason
    acts: tuple[Act, ...] = Field(min_length=1, max_length=500)


class ActResult(WireModel):
    """The result of one act, and the fact that it is about.

    The fact of `revised` is the successor, and the fact of a link is the one it starts from.
    `unchanged` says that the link or the alias existed, that there was none to remove, or that both
    ends are the same fact.
    """

    act: Literal["remember", "revise", "retract", "link", "unlink", "set_alias", "remove_alias"]
    status: Literal[
        "created",
        "confirmed",
        "revised",
        "retracted",
        "linked",
        "unlinked",
        "alias_set",
        "alias_removed",
        "unchanged",
    ]
    fact_id: str
    aliases: tuple[Alias, ...] = ()
    superseded: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    link_id: str | None = None


class OperationResult(WireModel):
    """The result of each act, in the order of the request."""

    results: tuple[ActResult, ...]
