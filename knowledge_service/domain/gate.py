"""The write gate for text that wants to be obeyed: it is flagged, stored, and not injected. Pure.

A fact tells how things are. What sets the reader's instructions aside, gives it another role, or
asks it to pass data on or to hide something is kept out of prompts until a person confirms it. A
rule needs two things together, an order and what it is about, so that ordinary advice such as
"never run the migration twice" passes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from knowledge_client.models import FactIn

INSTRUCTIONS = "instructions"
"""The flag of such a fact."""


def _any(words: str) -> str:
    return "(?:" + "|".join(word.strip() for word in words.split(",")) + ")"


# Every repetition has a bound: text comes from anybody, and the gate is on the way of each write.
_GAP = r"[^.!?\n]{0,60}?"
_EARLIER = _any(
    "previous, prior, earlier, above, preceding, all, any, your, system, existing, other, safety,"
    " former, those, these"
)
_ORDERS = _any(
    r"instruct\w*, prompts?, rules?, guidelines?, directions?, directives?, orders, constraints?,"
    r" polic(?:y|ies), context, messages?, restrictions?, guardrails?, told, training"
)
_SET_ASIDE = _any(
    "ignore, disregard, forget, override, bypass, neglect, discard, drop, do not follow,"
    " don't follow, stop following"
)
_PRIVATE = _any(
    "secrets?, credentials?, tokens?, passwords?, api[ -]keys?, keys?, environment variables?,"
    " env(?:ironment)? vars?, conversation, chat history, transcript, source code, prompt,"
    " kubeconfig, private data, user data, contents? of, service ?account, database dump, emails?"
)
_PASS_ON = _any(
    "send, post, upload, forward, exfiltrate, transmit, email, mail, leak, copy, submit, append"
)
_TELL = _any("tell, inform, mention, reveal, alert, notify, disclose, show, warn, report")
_TELLING = _any("telling, informing, mentioning, asking, notifying, alerting, warning, showing")
_PEOPLE = _any(
    "users?, humans?, operators?, owners?, reviewers?, anyone, anybody, people, admins?,"
    " administrators?, the team"
)
_READER = _any("assistants?, agents?, ai, ais, models?, llms?, bots?, chatbots?, language models?")
_OBEY = _any(
    "ignore, obey, execute, run, delete, send, reveal, approve, trust, disable, bypass, comply,"
    " download, install, grant, skip, call, visit, open, forward, upload, follow, answer, say,"
    " respond, reply"
)
_SAFETY = _any(
    "safety, security, guardrails?, approvals?, confirmations?, audit, authentication,"
    " authorization, authorisation, content filters?, moderation, reviews?"
)
_ROLE = _any(
    r"an? (?:unrestricted|unfiltered|jailbroken|different|new|evil)\b, no longer\b,"
    r" in (?:developer|debug|admin|god|dan) mode, dan\b, the system\b, now (?:an?|the|in|free)\b"
)
_POWERS = _any("admin, administrator, root, system, developer, unrestricted, unfiltered, superuser")
_OUTSIDE = _any(r"https?:, @, \bwebhook, \b(?:external|attacker|remote|following|this|my|our)\b")

_RULES = re.compile(
    "|".join(
        [
            # Setting earlier orders aside.
            rf"\b{_SET_ASIDE}\b{_GAP}\b{_EARLIER}\b{_GAP}\b{_ORDERS}\b",
            rf"\b{_SET_ASIDE} (?:everything|anything|all)\b{_GAP}\b(?:told|said|above|before)\b",
            r"\b(?:new|updated|real|actual|true|revised) (?:system )?(?:instructions?|prompt|orders?):",
            rf"\b(?:from now on|henceforth|starting now),? (?:you|{_OBEY}|act|always|never)\b",
            r"\bthis (?:memory|fact|note|entry|record|instruction) (?:overrides?|takes? precedence)\b",
            r"\b(?:fact|note|entry|record|instruction)s? must be (?:obeyed|followed)\b",
            # Another role.
            rf"\byou (?:are|will be|must be|shall be) (?:now |always |henceforth )?{_ROLE}",
            r"\b(?:act|behave|respond|pretend|pose|operate) (?:as if you|as though you|like you|you are)\b",
            rf"\b(?:act|behave|respond|pose|operate) as (?:an? |the )?{_POWERS}\b",
            r"\b(?:developer|debug|god|dan|jailbreak|sudo) mode (?:is )?(?:now )?(?:enabled|activated)\b",
            # Marks of roles and templates.
            r"<\|?/?(?:im_start|im_end|system|assistant|endoftext|eot_id)\b[^>\n]{0,20}>",
            r"<<\s{0,3}/?sys\s{0,3}>>|\[/?(?:inst|system)\]|#{2,} ?(?:new |system )?instructions?\b",
            r"(?:^|\n)\s{0,8}(?:system|assistant|developer)(?: message| prompt)?\s?:\s",
            r"\b(?:begin|end)[ _-](?:system|admin|hidden)[ _-](?:prompt|message|override|instruction)",
            # Secrecy and disclosure.
            rf"\b(?:do not|don't|never) {_TELL}\b{_GAP}\b{_PEOPLE}\b",
            rf"\bwithout {_TELLING}\b{_GAP}\b(?:{_PEOPLE}|permission|confirmation|approval)\b",
            rf"\b(?:reveal|print|output|repeat|show|leak|dump|recite)\b{_GAP}\bsystem prompt\b",
            rf"\b(?:reveal|print|output|repeat|show|leak|dump)\b{_GAP}\byour (?:\w+ )?(?:prompt|instruct)",
            rf"\b{_PASS_ON}\b{_GAP}\b{_PRIVATE}\b{_GAP}\b(?:to|at|via)\b{_GAP}{_OUTSIDE}",
            r"\b(?:curl|wget)\b[^\n]{0,200}\|\s{0,3}(?:sudo )?(?:ba|z|da)?sh\b",
            # Orders to a reader who is a machine.
            rf"\b(?:as an ai|dear {_READER})\b",
            rf"\b(?:attention|note to|message (?:for|to)|instructions? (?:for|to)) (?:\w+ )?{_READER}\b",
            rf"\b{_READER} (?:reading this|that reads? this|who reads? this)\b",
            rf"\b{_READER} (?:must|should|shall|has to|needs to) (?:\w+ )?{_OBEY}\b",
            r"\b(?:whenever|when|if|every time|each time) (?:you|the (?:assistant|agent|ai|user)) "
            rf"(?:are |is )?(?:reads?|sees?|recalls?|retrieves?|asks?|asked|receives?)\b{_GAP}"
            rf"(?:,|\bthen\b) ?(?:you must|always|instead|silently|please|{_OBEY})\b",
            r"\bit is (?:very |extremely )?(?:critical|imperative|mandatory|essential) that you\b",
            rf"\b(?:disable|turn off|switch off|skip|bypass|circumvent) (?:\w+ ){{0,2}}{_SAFETY}"
            rf"\b{_GAP}\b(?:before|and|without|for (?:this|all|any)|when you)\b",
        ]
    ),
    re.IGNORECASE,
)
# Characters that are not seen hide words from rules.
_UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad\U000e0000-\U000e007f]")


def flags(body: FactIn) -> tuple[str, ...]:
    """Return the flags of a fact that is about to be stored."""
    return flags_of(body.title, body.content, body.subject, body.predicate, body.data, *body.tags)


def flags_of(*texts: Any) -> tuple[str, ...]:
    """Return the flags that texts or JSON data earn."""
    return (INSTRUCTIONS,) if any(_is_instruction(text) for text in texts) else ()


def _is_instruction(value: Any) -> bool:
    if value is None:
        return False
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _RULES.search(unicodedata.normalize("NFKC", _UNSEEN.sub("", text))) is not None
