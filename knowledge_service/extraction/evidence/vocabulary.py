"""The English words that the check of evidence knows by their function.

The lists hold common words only: a word that only some subject uses tells something about it.
"""

from __future__ import annotations

import re

from knowledge_service.search.text import analyser


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _terms(words: str) -> frozenset[str]:
    return frozenset(map(analyser.stem, words.split()))


NEGATIONS = _words("not no never cannot without nor neither none nothing")
VERB_NEGATIONS = frozenset({"not", "never", "cannot"})
NEGATED_ENDINGS = ("n't", "n\u2019t")
CONJUNCTIONS = _words(
    "because since so but although though while when whereas after before if unless until which and"
    " as once that who whose"
)
DENIALS = _terms(
    "fail failure miss missing lack absent absence omit exclude ignore refuse reject deny forbid"
    " prevent avoid prohibit block stop cease remove eliminate delete drop unable impossible wrong"
    " invalid error refusal denial empty skip hardly rarely seldom conflict incompatible disable"
    " insufficient only except mismatch differ undefined unclosed gone lose unreachable null nil"
    " none unknown unset off stuck break broken exceed"
)
"""Terms that deny what they govern, or report that it went wrong."""
AFFIRMATIONS = _terms(
    "allow permit accept correct right pass succeed success work ok valid present exist available"
    " enable find complete healthy able possible open reachable include contain fill support"
)
OBLIGATIONS = _terms("must should need require ought want")
"""Terms before what is not yet so."""
GENERAL = _terms(
    # Relations of a cause to its effect.
    "cause lead led result make made let require must need reason responsible due effect allow"
    " prevent avoid enable help trouble issue problem remedy fix resolve solve"
    # Events and states without their object.
    "happen occur become remain stay keep kept set change bring brought run ran work start stop"
    " begin end finish turn appear seem get got take took put place go come do does did has have"
    " had be being been exist available present possible able act perform serve behave"
    # Changes of an amount or a place.
    "add added cut reduce lower raise increase decrease rise fall drop grow shrink exceed reach"
    " switch move return correct replace"
    # Reports and decisions.
    "give gave show mean include contain receive accept apply use used using state report say tell"
    " note describe name call find notice discover detect observe see recognise identify consider"
    " think believe suspect expect ask request demand decide choose pick select respond try"
    " attempt handle treat deal carry hold lie sit stand fit bear yield produce generate provide"
    " deliver supply offer enter leave form depend rely"
    # Degrees, order and amount.
    "new old now again still already longer only first later earlier last latest less least more"
    " most up down off out over about around just even yet back away per before after ahead both"
    " each all every several multiple many much few some any such same other another different"
    " also too enough large larger big small smaller long short shorter high higher low lower"
    " early late slow slower fast faster quick next previous former actual own certain itself"
    " themselves further additional extra proper properly correctly wrong wrongly right good"
    " better best bad worse main whole entire full fully complete completely partly can could may"
    " might shall should will would"
    # Things in general.
    "one ones thing way case time order price step part kind version value amount number"
)
"""Terms that say little about any subject, and that a paraphrase adds."""

_DIMENSIONS = {
    "time": "ms millisecond milliseconds|s sec secs second seconds|min mins minute minutes m"
    "|h hr hour hours|d day days|w week weeks|month months|year years",
    "size": "kb kilobyte|mb mib mi megabyte megabytes|gb gib gi g gigabyte gigabytes|tb|byte bytes"
    "|bit bits",
    "": "eur euro euros|usd dollar dollars|percent|k thousand|line lines",
}
UNITS = {
    spelling: group.split()[0]
    for groups in _DIMENSIONS.values()
    for group in groups.split("|")
    for spelling in group.split()
}
"""The term of each spelling of a unit."""
DIMENSIONS = {
    group.split()[0]: dimension or group.split()[0]
    for dimension, groups in _DIMENSIONS.items()
    for group in groups.split("|")
}
"""What each unit measures."""

NEGATING_PREFIX = re.compile(r"(?:un|mis|non|dis|in|im)(?=[a-z]{4})")
LATER_STATE = re.compile(r"\b(?:after|once|since|with|now|when)\b", re.IGNORECASE)
"""Words before a change, with which a statement speaks of the state after the change."""
CONDITION = re.compile(
    r"^(?:With|Now)\b|\b(?:after|once|since|now|until|unless|if)\b", re.IGNORECASE
)
CAUSE = re.compile(r"\b(?:because|since|so|as)\b")
SWITCH_POSITION = re.compile(
    r"\b(?:is|was|are|were|be|been|turned|switched|set to|stays?|remains?|kept)\s+(on|off)\b"
    r"(?!\s+(?:the|a)\b)"
)
REASON = re.compile(r"\b(?:because|due to|by|needs?|requires?|must|should|from|since|as)\b")
"""Words before a cause or a demand, which is what models invent most."""
