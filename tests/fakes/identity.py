"""Callers for tests of the service: a token is the name of a principal."""

from __future__ import annotations

from typing import Literal

from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Unauthenticated, Unregistered


class NamedCallers:
    """The `Authenticator` port over a dictionary; a token `unregistered` is good but unknown."""

    mode: Literal["kubernetes", "token", "none"] = "token"

    def __init__(self, principals: dict[str, Principal]) -> None:
        self.principals = principals

    async def principal(self, bearer: str | None) -> Principal:
        if bearer == "unregistered":
            raise Unregistered("unregistered is not registered yet; try again in a moment")
        if bearer is None or bearer not in self.principals:
            raise Unauthenticated("send a token of audience kais-knowledge as bearer")
        return self.principals[bearer]
