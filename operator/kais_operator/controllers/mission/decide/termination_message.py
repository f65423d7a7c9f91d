"""The message that a task leaves when it ends: how much of it is kept, and what of it is shown."""

from __future__ import annotations

from kais_operator.planning.plan import Body

RESULT_BYTES = 4096
"""What the kubelet keeps of a termination message."""
MESSAGES_BYTES = 12 * 1024
"""What it keeps of all messages of a pod, in equal parts."""
LOG_BYTES = 2048
"""What the kubelet keeps of a failed container's log in place of a termination message."""


def limit_of(pod: Body) -> int:
    """Say how many bytes the kubelet keeps of one message: it shares 12 KiB among containers."""
    spec = pod.get("spec") or {}
    count = len(spec.get("containers") or ()) + len(spec.get("initContainers") or ())
    return min(RESULT_BYTES, MESSAGES_BYTES // max(1, count))


def is_truncated(message: str, pod: Body) -> bool:
    """Whether the task may have said more than the kubelet kept."""
    size = len(message.encode("utf-8", "replace"))
    return size >= limit_of(pod) or size == LOG_BYTES


def clean(message: str) -> str:
    """Drop what nobody can read: broken surrogates, and controls, which terminals would obey.

    In the annotation that keeps the words each control would take six characters: a task that
    prints nothing else must not fill it.
    """
    readable = "".join(
        character for character in message if character in "\n\t" or not _is_control(character)
    )
    cleaned = readable.encode("utf-8", "replace")
    return cleaned[:RESULT_BYTES].decode("utf-8", "ignore").strip()


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f"
