"""People and what they may do, by the name and the groups that the API server reports.

A rule grants verbs to one user or to one group. A group never grants anything to a ServiceAccount,
because every cell is in the group of its namespace's accounts; a rule may name an account as user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pydantic
from pydantic import Field, TypeAdapter, model_validator

from kais import scopes
from knowledge_client.models import Grant
from knowledge_service.authentication.cache import Identity
from knowledge_service.domain.access_control import PLATFORM
from knowledge_service.domain.principals import Principal

_ACCOUNT_PREFIX = "system:serviceaccount:"


class PersonRule(Grant):
    """A grant to the user of that name, or to all people of a group."""

    user: str | None = Field(default=None, min_length=1)
    group: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _user_or_group(self) -> Self:
        if (self.user is None) == (self.group is None):
            raise ValueError("a rule has one of user and group")
        scopes.Scope.parse(self.scope)
        return self

    @property
    def is_for_logins(self) -> bool:
        """Return whether the rule can apply to a user other than a ServiceAccount."""
        return self.user is None or not self.user.startswith(_ACCOUNT_PREFIX)

    def applies_to(self, identity: Identity) -> bool:
        """Return whether the rule grants its verbs to a user of the API server."""
        if self.group is None:
            return identity.username == self.user
        return self.group in identity.groups and not is_account(identity)


_RULES: TypeAdapter[tuple[PersonRule, ...]] = TypeAdapter(tuple[PersonRule, ...])


class InvalidRules(ValueError):
    """The text is not a list of rules; the message names what is wrong."""


def parse_rules(text: str) -> tuple[PersonRule, ...]:
    """Parse a JSON list of rules.

    Raises:
        InvalidRules: the text is not such a list.
    """
    try:
        return _RULES.validate_json(text)
    except pydantic.ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in error['loc']) or 'the list'}: {error['msg']}"
            for error in exc.errors(include_input=False, include_context=False, include_url=False)
        )
        raise InvalidRules(problems) from None


def is_account(identity: Identity) -> bool:
    """Return whether a user is a ServiceAccount."""
    return identity.username.startswith(_ACCOUNT_PREFIX)


def person(identity: Identity, rules: Sequence[PersonRule]) -> Principal | None:
    """Return the principal of a user by the rules; None if no rule applies to the user.

    Every person may read the platform; writing there requires a grant of the verb.
    """
    grants = tuple(
        Grant(scope=str(scopes.Scope.parse(rule.scope)), subtree=rule.subtree, verbs=rule.verbs)
        for rule in rules
        if rule.applies_to(identity)
    )
    if not grants:
        return None
    return Principal(
        identity.username,
        "human",
        PLATFORM,
        grants,
        subject=f"{identity.username} {identity.uid or ''}",
        writes_at_home=False,
    )
