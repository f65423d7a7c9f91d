"""The termination message of a task: the kubelet's limits, and how the message is cleaned."""

from __future__ import annotations

from kais_operator.planning.plan import Body

RESULT_BYTES = 4096
"""Maximum size of a termination message that the kubelet keeps."""
MESSAGES_BYTES = 12 * 1024
"""Maximum size of all messages of a pod that the kubelet keeps, in equal parts."""
LOG_BYTES = 2048
"""Size of a failed container's log that the kubelet keeps in place of a termination message."""


def limit_of(pod: Body) -> int:
    """Return the maximum size of one message in bytes: the containers of a pod share 12 KiB."""
    spec = pod.get("spec") or {}
    return limit_for(len(spec.get("containers") or ()) + len(spec.get("initContainers") or ()))


def limit_for(containers: int) -> int:
    """Return the maximum size of one message in bytes in a pod with this number of containers."""
    return min(RESULT_BYTES, MESSAGES_BYTES // max(1, containers))


def is_truncated(message: str, pod: Body) -> bool:
    """Whether the message may have been longer than the kubelet keeps."""
    size = len(message.encode("utf-8", "replace"))
    return size >= limit_of(pod) or size == LOG_BYTES


def clean(message: str) -> str:
    """Remove broken surrogates, and control characters, which terminals would interpret.

    In the annotation each control character would take six characters. A task that prints nothing
    else must not fill the annotation.
    """
    readable = "".join(
        character for character in message if character in "\n\t" or not _is_control(character)
    )
    cleaned = readable.encode("utf-8", "replace")
    return cleaned[:RESULT_BYTES].decode("utf-8", "ignore").strip()


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f"
