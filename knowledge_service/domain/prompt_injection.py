"""The write gate for prompt injection: it flags the fact, which is stored but not injected. Pure.

A fact describes how things are. Text that overrides the reader's instructions, gives it another
role, or asks it to disclose data or to hide something is kept out of prompts until a person
confirms it. A rule needs two things together, an order and its object, so that ordinary advice such
as "never run the migration twice" passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kais import normalization

INSTRUCTIONS = "instructions"
"""The flag of a fact with instructions."""


def _alternatives(phrases: str) -> str:
    return "(?:" + "|".join(phrase.strip() for phrase in phrases.split(",")) + ")"


_EARLIER = _alternatives(
    "previous, prior, earlier, above, preceding, all, any, your, system, existing, other, safety,"
    " former, those, these"
)
_ORDERS = _alternatives(
    r"instruct\w*, prompts?, rules?, guidelines?, directions?, directives?, orders, constraints?,"
    r" polic(?:y|ies), context, messages?, restrictions?, guardrails?, told, training"
)
_SET_ASIDE = _alternatives(
    "ignore, disregard, forget, override, bypass, neglect, discard, drop, do not follow,"
    " don't follow, stop following"
)
_PRIVATE = _alternatives(
    "secrets?, credentials?, tokens?, passwords?, api[ -]keys?, keys?, environment variables?,"
    " env(?:ironment)? vars?, conversation, chat history, transcript, source code, prompt,"
    " kubeconfig, private data, user data, contents? of, service ?account, database dump, emails?"
)
_PASS_ON = _alternatives(
    "send, post, upload, forward, exfiltrate, transmit, email, mail, leak, copy, submit, append"
)
_DISCLOSE = _alternatives(
    "tell, inform, mention, reveal, alert, notify, disclose, show, warn, report"
)
_DISCLOSING = _alternatives(
    "telling, informing, mentioning, asking, notifying, alerting, warning, showing"
)
_PEOPLE = _alternatives(
    "users?, humans?, operators?, owners?, reviewers?, anyone, anybody, people, admins?,"
    " administrators?, the team"
)
_READER = _alternatives(
    "assistants?, agents?, ai, ais, models?, llms?, bots?, chatbots?, language models?"
)
_OBEY = _alternatives(
    "ignore, obey, execute, run, delete, send, reveal, approve, trust, disable, bypass, comply,"
    " download, install, grant, skip, call, visit, open, forward, upload, follow, answer, say,"
    " respond, reply"
)
_SAFETY = _alternatives(
    "safety, security, guardrails?, approvals?, confirmations?, audit, authentication,"
    " authorization, authorisation, content filters?, moderation, reviews?"
)
_ROLE = _alternatives(
    r"an? (?:unrestricted|unfiltered|jailbroken|different|new|evil)\b, no longer\b,"
    r" in (?:developer|debug|admin|god|dan) mode, dan\b, the system\b, now (?:an?|the|in|free)\b"
)
_POWERS = _alternatives(
    "admin, administrator, root, system, developer, unrestricted, unfiltered, superuser"
)
_OUTSIDE = _alternatives(
    r"https?:, @, \bwebhook, \b(?:external|attacker|remote|following|this|my|our)\b"
)

_EXECUTE = _alternatives(
    "run, delete, deploy, merge, push, drop, remove, apply, change, grant, approve, execute"
)
_APPROVER = f"(?:{_PEOPLE}|permission|confirmation|approval)"

_SETTING = "ignore disregard forget override bypass neglect discard drop follow following"
_MACHINES = """
assistant assistants agent agents ai ais model models llm llms bot bots chatbot chatbots language
"""


@dataclass(frozen=True)
class _Rule:
    """Phrases that follow each other within one sentence, at most `gap` characters apart.

    A text can match the rule only if it contains one of the `signs`, or for a rule without signs a
    mark (`_has_marks`).
    """

    signs: frozenset[str]
    phrases: tuple[re.Pattern[str], ...]
    gap: int = 60
    stops: re.Pattern[str] = re.compile(r"[.!?\n]")

    def is_broken_by(self, text: str) -> bool:
        """Return whether a lower-case text has the phrases, in time linear in its length."""
        first, *next_phrases = self.phrases
        if not next_phrases:
            return first.search(text) is not None
        ends = [match.end() for match in first.finditer(text)]
        for phrase in next_phrases:
            if not ends:
                return False
            ends = self._match_ends_after(text, ends, phrase)
        return bool(ends)

    def _match_ends_after(self, text: str, ends: list[int], phrase: re.Pattern[str]) -> list[int]:
        """Return the ends of all matches of the phrase that follow one of the ends.

        The nearest end before a match decides: it leaves the smallest gap and the fewest stops.
        """
        match_ends = []
        index, end = 0, None
        for match in phrase.finditer(text):
            start = match.start()
            while index < len(ends) and ends[index] <= start:
                end = ends[index]
                index += 1
            if end is None or start - end > self.gap:
                continue
            if self.stops.search(text, end, start) is None:
                match_ends.append(match.end())
        return match_ends


def _rule(signs: str, *phrases: str) -> _Rule:
    return _Rule(frozenset(signs.split()), tuple(map(re.compile, phrases)))


_PIPED = re.compile(r"\n")

# Only rules with a sign in the text are tried, so that the gate is cheap. The text is untrusted, so
# no pattern has a repetition that can start at many positions and continue far from each.
_RULES = (
    # Overriding earlier instructions.
    _rule(_SETTING, rf"\b{_SET_ASIDE}\b", rf"\b{_EARLIER}\b", rf"\b{_ORDERS}\b"),
    _rule(_SETTING, rf"\b{_SET_ASIDE}\b", rf"\b{_ORDERS} (?:above|before)\b"),
    _rule(
        _SETTING,
        rf"\b{_SET_ASIDE} (?:everything|anything|all)\b",
        r"\b(?:told|said|above|before)\b",
    ),
    _rule(
        "instruction instructions prompt order orders",
        r"\b(?:new|updated|real|actual|revised) (?:system )?(?:instructions?|prompt|orders?):",
    ),
    _rule(
        "henceforth now",
        rf"\b(?:from now on|henceforth|starting now),? (?:you|{_OBEY}|act|always|never)\b",
    ),
    _rule(
        "override overrides precedence",
        r"\bthis (?:memory|fact|note|entry|instruction) (?:overrides?|takes? precedence)\b",
    ),
    _rule(
        "obeyed followed",
        r"\b(?:fact|note|entry|record|instruction)s? must be (?:obeyed|followed)\b",
    ),
    # Another role.
    _rule(
        "unrestricted unfiltered jailbroken different new evil longer developer debug admin god dan"
        " system now",
        rf"\byou (?:are|will be|must be|shall be) (?:now |always |henceforth )?{_ROLE}",
    ),
    _rule(
        "act behave respond pretend pose operate",
        r"\b(?:act|behave|respond|pretend|pose) (?:as if you|as though you|like you|you are)\b",
    ),
    _rule(
        "act behave respond pose operate",
        rf"\b(?:act|behave|respond|pose|operate) as (?:an? |the )?{_POWERS}\b",
    ),
    _rule(
        "mode",
        r"\b(?:developer|debug|god|jailbreak|sudo) mode (?:is )?(?:now )?(?:enabled|activated)\b",
    ),
    # Markers of roles and templates.
    _rule("", r"<\|?/?(?:im_start|im_end|system|assistant|endoftext|eot_id)\b[^>\n]{0,20}>"),
    _rule("", r"<<\s{0,3}/?sys\s{0,3}>>|\[/?(?:inst|system)\]"),
    _rule("", r"## ?(?:new |system )?instructions?\b"),
    _rule(
        "system assistant developer",
        r"(?:^|\n)[^\S\n]{0,8}(?:system|assistant|developer)(?: message| prompt)?\s?:\s",
    ),
    _rule(
        "system admin hidden",
        r"\b(?:begin|end)[ _-](?:system|admin|hidden)[ _-](?:prompt|message|override)",
    ),
    # Secrecy and disclosure.
    _rule(
        "tell inform mention reveal alert notify disclose show warn report",
        rf"\b(?:do not|don't|never) {_DISCLOSE}\b",
        rf"\b{_PEOPLE}\b",
    ),
    _rule(
        "telling informing mentioning asking notifying alerting warning showing",
        rf"(?:^|[.:;!?]\s?)(?:please )?{_EXECUTE}\b",
        rf"\bwithout {_DISCLOSING}\b",
        rf"\b{_APPROVER}\b",
    ),
    _rule(
        "prompt",
        r"\b(?:reveal|print|output|repeat|show|leak|dump|recite)\b",
        r"\bsystem prompt\b",
    ),
    _rule(
        "reveal print output repeat show leak dump",
        r"\b(?:reveal|print|output|repeat|show|leak)\b",
        r"\byour (?:\w{1,40} )?(?:prompt|instruct)",
    ),
    _rule(
        "send post upload forward exfiltrate transmit email mail leak copy submit append",
        rf"\b{_PASS_ON}\b",
        rf"\b{_PRIVATE}\b",
        r"\b(?:to|at|via)\b",
        _OUTSIDE,
    ),
    _Rule(
        frozenset({"curl", "wget"}),
        (re.compile(r"\b(?:curl|wget)\b"), re.compile(r"\|\s{0,3}(?:sudo )?(?:ba|z|da)?sh\b")),
        gap=200,
        stops=_PIPED,
    ),
    # Instructions to a reader who is a machine.
    _rule(_MACHINES, rf"\b(?:as an ai|dear {_READER})\b"),
    _rule(
        _MACHINES,
        rf"\b(?:attention|(?:note|message|instructions?) (?:for|to)) (?:\w{{1,40}} )?{_READER}\b",
    ),
    _rule(_MACHINES, rf"\b{_READER} (?:reading this|that reads? this|who reads? this)\b"),
    _rule(
        _MACHINES,
        rf"\b{_READER} (?:must|should|shall|has to|needs to) (?:\w{{1,40}} )?{_OBEY}\b",
    ),
    _rule(
        "read reads see sees recall recalls retrieve retrieves ask asks asked receive receives",
        r"\b(?:whenever|when|if|every time|each time) (?:you|the (?:assistant|agent|ai|user))"
        r" (?:are |is )?(?:reads?|sees?|recalls?|retrieves?|asks?|asked|receives?)\b",
        rf"(?:,|\bthen\b) ?(?:you must|always|instead|silently|please|{_OBEY})\b",
    ),
    _rule(
        "critical imperative mandatory essential",
        r"\bit is (?:very |extremely )?(?:critical|imperative|mandatory|essential) that you\b",
    ),
    _rule(
        "disable turn switch skip bypass circumvent",
        rf"\b(?:disable|turn off|switch off|skip|bypass|circumvent) (?:\w{{1,40}} ){{0,2}}{_SAFETY}\b",
        r"\b(?:before|and|without|for (?:this|all|any)|when you)\b",
    ),
)
_NEEDED = frozenset[str]().union(*(rule.signs for rule in _RULES))
_BETWEEN_WORDS = {n: " " for n in range(128) if not chr(n).isalnum()}
# A report is not an order: `I'll never tell anyone`, `she had to skip the review`.
_DISCLOSURE_PREFIX = re.compile(
    r"\b(?:i|he|she|they)(?:['\u2019](?:ll|d|ve)|[ ](?:will|would|can|could|did|do|had to"
    r"|have to|has to|never|always|just|not|don['\u2019]?t)){1,3}[ ][a-z]{1,20}(?=[ ])"
)
# Invisible characters that hide words from rules.
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0e-\\x1f\\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)

# Cyrillic and Greek letters that look like Latin ones; the commonest of Unicode's confusables.
_LOOKALIKES = str.maketrans(
    "авеіјкӏмнорстухѕԁԛԝАВЕЅІЈКМНОРСТУХΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχϲ",
    "abeijklmhopctyxsdqwABESIJKMHOPCTYXABEZHIKMNOPTYXaeikvoptuxc",
)


def detect_flags(*texts: Any) -> tuple[str, ...]:
    """Return the flags of texts or JSON data."""
    for text in texts:
        if text and _is_instruction(text):
            return (INSTRUCTIONS,)
    return ()


def _is_instruction(value: Any) -> bool:
    text = value if isinstance(value, str) else "\n".join(_strings(value))
    if not (text.isascii() and text.isprintable()):
        text = _UNSEEN.sub("", text)
    if not text.isascii():
        text = _plain(text)
    text = text.lower()
    # Words on separate lines are also read as one sentence.
    return _breaks_rules(text) or ("\n" in text and _breaks_rules(" ".join(text.split())))


def may_match(text: str) -> bool:
    """Return whether a plain text with these words may get a flag."""
    return _has_marks(text) or bool(_signal_words(text.lower()))


def _breaks_rules(text: str) -> bool:
    signal_words, has_marks = _signal_words(text), _has_marks(text)
    if signal_words:
        text = _DISCLOSURE_PREFIX.sub("", text)
    return (has_marks or bool(signal_words)) and any(
        rule.is_broken_by(text)
        for rule in _RULES
        if (has_marks and not rule.signs) or not rule.signs.isdisjoint(signal_words)
    )


def _signal_words(text: str) -> frozenset[str]:
    return _NEEDED.intersection(text.translate(_BETWEEN_WORDS).split())


def _has_marks(text: str) -> bool:
    return "<" in text or "[" in text or "#" in text


def _plain(text: str) -> str:
    """Replace confusable and accented letters with the plain letters that they look like."""
    letters = normalization.without_marks(text.translate(_LOOKALIKES))
    return normalization.without_marks(normalization.normalized("NFKD", letters))


def _strings(value: Any) -> Iterator[str]:
    """Yield every string of JSON data, including member names, before it is encoded."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
