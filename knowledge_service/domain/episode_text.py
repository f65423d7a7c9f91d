"""The text of an episode: what a model reads, and what its facts are checked against. Pure.

Records contain the output of commands. A model copies a passage of it without colours and in
composed letters, so the text has neither control sequences nor combining marks where a letter with
the mark exists.
"""

from __future__ import annotations

import re

from kais import normalization
from knowledge_client.models import Episode

# ECMA-48: control sequences such as colours, strings such as titles and links, and other escapes.
# The text is untrusted: each alternative begins with ESC and contains no other, so that the time is
# linear. White space stays.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
    r"|[\x00-\x08\x0e-\x1f\x7f]"
)


def text_of(episode: Episode) -> str:
    """Return the legible content; a signature that it does not have stands in front."""
    signature, text = episode.error_signature, episode.content
    if signature and signature not in text:
        text = f"{signature}: {text}"
    return legible(text)


def legible(text: str) -> str:
    """Return a text without control sequences of a terminal, in composed letters (NFC)."""
    return normalization.normalized("NFC", _CONTROL.sub("", text))
