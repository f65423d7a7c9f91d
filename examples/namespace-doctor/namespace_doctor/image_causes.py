"""Why an image cannot be pulled, from the messages of the kubelet and the registry. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from namespace_doctor import pods
from namespace_doctor.diagnoses import Cause, Diagnosis
from namespace_doctor.pods import Body, Container

_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
    }
)

# part of the message, explanation, advice; the first match counts
_PULL_FAILURES = (
    (
        "invalidimagename",
        "is not a valid image name",
        "correct the name in the pod",
    ),
    (
        "errimageneverpull",
        "is not on the node and imagePullPolicy Never forbids pulling it",
        "load the image on the node or change the policy",
    ),
    (
        "connection refused",
        "cannot be pulled: connection refused, nothing listens at {registry}",
        "change the image or start that registry",
    ),
    (
        "no such host",
        "cannot be pulled: the registry's name {registry} is not known",
        "correct the registry in the image's name",
    ),
    (
        "i/o timeout",
        "cannot be pulled: {registry} does not answer in time",
        "check the network between the node and that registry",
    ),
    (
        "deadline exceeded",
        "cannot be pulled: {registry} does not answer in time",
        "check the network between the node and that registry",
    ),
    (
        "server gave http response",
        "cannot be pulled: {registry} speaks HTTP where HTTPS is expected",
        "give the registry a certificate or allow it as insecure on the node",
    ),
    (
        "x509",
        "cannot be pulled: the node does not trust the certificate of {registry}",
        "install the registry's certificate authority on the node",
    ),
    (
        "unauthorized",
        "cannot be pulled: {registry} asks for credentials",
        "give the pod an imagePullSecret",
    ),
    (
        "denied",
        "cannot be pulled: {registry} refuses it",
        "check the name and give the pod an imagePullSecret",
    ),
    (
        "not found",
        "cannot be pulled: {registry} has no such name or tag",
        "correct the tag or push the image",
    ),
    (
        "manifest unknown",
        "cannot be pulled: {registry} has no such name or tag",
        "correct the tag or push the image",
    ),
)


def image_not_pulled(pod: Body, container: Container, events: Sequence[Body]) -> Diagnosis | None:
    """Recognise an image that cannot be pulled, and the registry's reason."""
    reason = str(container.waiting.get("reason", ""))
    if reason not in _REASONS:
        return None
    image = container.image
    messages = [str(container.waiting.get("message", ""))]
    messages += [str(e.get("message", "")) for e in events if image in str(e.get("message", ""))]
    explanation, advice = _explain(" ".join([reason, *messages]), registry(image), messages[0], pod)
    return Diagnosis(
        pod=pods.name(pod),
        cause=Cause.IMAGE,
        subject=f"image {image}",
        signature=f"ImagePullBackOff {image}",
        explanation=explanation,
        advice=advice,
    )


def registry(image: str) -> str:
    """Return the registry of an image: the part before the first slash, if it is a host."""
    first, slash, _ = image.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if is_host else "docker.io"


def _explain(text: str, host: str, message: str, pod: Body) -> tuple[str, str]:
    folded = text.casefold()
    for fragment, explanation, advice in _PULL_FAILURES:
        if fragment in folded:
            return explanation.format(registry=host), advice
    return (
        f"cannot be pulled: {pods.plain(message, pod) or 'the kubelet gives no reason'}",
        f"check the name and that {host} serves it",
    )
