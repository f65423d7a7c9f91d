"""Approvals of tool calls: what a cell asks for, and what a person decides.

An approval names the call and the SHA-256 of its arguments, so a call with other arguments needs a
new one. The annotations of a Mission carry the decisions of one person, one object or a list:

    kais.io/approval: {"call": "…", "sha256": "…", "decision": "approve" | "deny", "reason": "…"}
    kais.io/approval-by: the name of the person, as the API server knows it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from kais.encodable_text import encodable
from kais.service_accounts import USER_PREFIX

Decision = Literal["approve", "deny"]
Outcome = Literal["approved", "denied", "expired", "spent"]
OUTCOMES: Final[Mapping[Decision, Outcome]] = {"approve": "approved", "deny": "denied"}
ARGUMENT_CHARACTERS: Final = 8192
"""A call with longer arguments is refused, because people could not review them."""
REASON_CHARACTERS: Final = 1024
MAX_APPROVALS: Final = 20
MAX_APPROVED: Final = 100
"""Approved calls of a run in mode Task. Its Mission records all, and the reasons of the latest."""
_MAX_NAME: Final = 253
_LIMITS: Final = {"arguments": ARGUMENT_CHARACTERS, "reason": REASON_CHARACTERS}
"""Lengths of the fields of a call; all others are as short as a name."""
_PLANE: Final = 0x10000


@dataclass(frozen=True, kw_only=True)
class CallApproval:
    """A tool call that waits for a person or was decided.

    Attributes:
        arguments: canonical JSON, of which `sha256` is the hash.
        requested_at: RFC 3339, as are `expires_at` and `decided_at`.
        outcome: None while it waits; `spent` if an earlier pod of the run may have made the call.
        by: the person who decided; None without a decision in time.
        cell: the cell of the team that wants to make the call; None for the cell that reports it.
        pod: in mode Task, UID of the one pod to which an approval was passed on.
    """

    call: str
    tool: str
    arguments: str
    sha256: str
    requested_at: str
    expires_at: str
    outcome: Outcome | None = None
    by: str | None = None
    decided_at: str | None = None
    reason: str = ""
    cell: str | None = None
    pod: str | None = None

    @staticmethod
    def load(value: Mapping[str, Any]) -> CallApproval:
        """Read the fields that `dump` returned."""
        return CallApproval(**value)

    def dump(self) -> dict[str, Any]:
        """Return the fields as JSON; those without a value are left out."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}


@dataclass(frozen=True, kw_only=True)
class ApprovalDecision:
    """The decision of a person about one call."""

    call: str
    sha256: str
    decision: Decision
    by: str
    reason: str = ""


def canonical(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call as people are shown them.

    Invisible characters, and those that change the order of others, are escaped as in JSON.
    """
    text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def hash_of(arguments: str) -> str:
    """Return the SHA-256 of canonical arguments, in hex."""
    return hashlib.sha256(arguments.encode("utf-8", "replace")).hexdigest()


def is_of(approval: CallApproval) -> bool:
    """Whether the hash that an approval names is that of the arguments it shows."""
    return approval.sha256 == hash_of(approval.arguments)


def is_person(name: str) -> bool:
    """Whether a user of the API server is no ServiceAccount, such as that of a cell."""
    is_readable = bool(name.strip()) and name.isprintable() and len(name) <= _MAX_NAME
    return is_readable and not name.startswith(USER_PREFIX)


def parse_call(value: Any) -> CallApproval | None:
    """Read what a cell reports about a call; None if it has another form."""
    if not isinstance(value, dict):
        return None
    fields = {key: value.get(key) for key in CallApproval.__dataclass_fields__}
    texts = {key: text for key, text in fields.items() if isinstance(text, str)}
    required = ("call", "tool", "arguments", "sha256", "requested_at", "expires_at")
    if any(not texts.get(key) for key in required):
        return None
    outcome = fields["outcome"]
    if outcome is not None and outcome not in {*OUTCOMES.values(), "expired", "spent"}:
        return None
    if any(len(text) > _LIMITS.get(key, _MAX_NAME) for key, text in texts.items()):
        return None
    if any(not text.isprintable() for key, text in texts.items() if key != "reason"):
        return None
    return CallApproval.load(texts)


def merged(*reports: Sequence[CallApproval]) -> tuple[CallApproval, ...]:
    """Return the calls of all reports; later reports take precedence."""
    calls = {each.call: each for report in reports for each in report}
    return tuple(calls.values())


def shown(calls: Sequence[CallApproval]) -> tuple[CallApproval, ...]:
    """Return at most `MAX_APPROVALS` calls: the newest decided ones, then the oldest waiting ones.

    Waiting calls that do not fit follow when earlier ones are decided.
    """
    waiting = sorted(
        (call for call in calls if call.outcome is None), key=lambda call: call.requested_at
    )[:MAX_APPROVALS]
    decided = sorted(
        (call for call in calls if call.outcome is not None),
        key=lambda call: call.decided_at or "",
    )
    left_out = max(0, len(decided) + len(waiting) - MAX_APPROVALS)
    return (*decided[left_out:], *waiting)


def to_record(calls: Sequence[CallApproval]) -> tuple[CallApproval, ...]:
    """Return the calls that a Mission records: all approved ones, then some others, waiting last.

    If an approval were dropped, its call could be made twice. Of the others, expired calls are
    dropped before denied ones.
    """
    approved = [call for call in calls if call.outcome == "approved"]
    expired = [call for call in calls if call.outcome == "expired"]
    denied = [call for call in calls if call.outcome == "denied"]
    waiting = [call for call in calls if call.outcome is None]
    older = [replace(call, reason="") for call in approved[:-MAX_APPROVALS]]
    others = [*expired, *denied, *waiting][-MAX_APPROVALS:]
    return (*older, *approved[-MAX_APPROVALS:], *others)


def parse_decisions(text: str, by: str) -> tuple[ApprovalDecision, ...]:
    """Read the annotation: what one person decided about one call, or about several.

    Raises:
        ValueError: It has another form, or its author is no person; the message says so.
    """
    value = _load(text)
    values = value if isinstance(value, list) else [value]
    return tuple(_decision(entry, by) for entry in values[-MAX_APPROVALS:])


def parse_decision(text: str, by: str) -> ApprovalDecision:
    """Read one decision.

    Raises:
        ValueError: It has another form, or its author is no person; the message says so.
    """
    return _decision(_load(text), by)


def dump_decisions(decisions: Sequence[ApprovalDecision]) -> str:
    """Return decisions of one person as the annotation has them, without their author."""
    records = [
        {key: value for key, value in asdict(decision).items() if key != "by"}
        for decision in decisions
    ]
    return json.dumps(records[0] if len(records) == 1 else records, ensure_ascii=False)


def _escaped(character: str) -> str:
    """Return a character as JSON escapes it: outside the first plane as two surrogates."""
    code = ord(character)
    if code < _PLANE:
        return f"\\u{code:04x}"
    high, low = divmod(code - _PLANE, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as exc:
        raise ValueError("it is not JSON") from exc


def _decision(value: Any, by: str) -> ApprovalDecision:
    decision = value.get("decision") if isinstance(value, dict) else None
    if not isinstance(decision, str) or decision not in OUTCOMES:
        raise ValueError('it needs "decision": "approve" or "deny"')
    call, sha256 = _text(value.get("call")), _text(value.get("sha256"))
    if not call or not sha256:
        raise ValueError('it needs "call" and "sha256" of the call')
    if not is_person(by):
        raise ValueError(f"an approval comes from a person, and not from {by or 'an unnamed user'}")
    return ApprovalDecision(
        call=call,
        sha256=sha256,
        decision="approve" if decision == "approve" else "deny",
        by=by,
        reason=_text(value.get("reason"))[:REASON_CHARACTERS],
    )


def _text(value: Any) -> str:
    return encodable(str(value or ""))
