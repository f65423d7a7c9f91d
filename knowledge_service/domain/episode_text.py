"""The text of an episode: what a model reads, and what its facts are checked against. Pure."""

from __future__ import annotations

from knowledge_client.models import Episode


def text_of(episode: Episode) -> str:
    """Return the content; a signature that it does not have stands in front."""
    signature = episode.error_signature
    if signature and signature not in episode.content:
        return f"{signature}: {episode.content}"
    return episode.content
