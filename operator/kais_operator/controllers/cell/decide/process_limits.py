"""Check the size of arguments and environment variables before any object is created.

The kernel accepts at most 128 KiB in one argument or variable (`MAX_ARG_STRLEN`). All of them
together may take a quarter of the stack limit: 2 MiB of the usual 8 MiB. A pod that exceeds a limit
never starts, and the message of the container runtime names no field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kais import labels
from kais_operator.planning.plan import Body

STRING_BYTES = 131_072
"""Maximum of one argument or `NAME=value`, including the zero byte at its end."""
TOTAL_BYTES = 1_835_008
"""Maximum of one container: 2 MiB less 256 KiB for the variables of the image."""
OBJECT_BYTES = 1_400_000
"""Maximum of all containers of a pod: etcd accepts 1.5 MiB for a whole object."""
_POINTER_BYTES = 8
_FIELDS = {
    labels.ENV_OBJECTIVE: "spec.objective",
    labels.ENV_MESSAGE: "spec.entrypoint.message",
    labels.ENV_CELL_SPEC: "spec",
}


@dataclass(frozen=True)
class _ProcessInput:
    """The size of one argument or variable of a process, and the field that it comes from."""

    field: str
    size: int


def fits(name: str, value: str) -> bool:
    """Whether a process accepts this variable."""
    return _variable_size(name, value) <= STRING_BYTES


def problem(containers: Sequence[Body]) -> str | None:
    """Return which field makes a pod's containers too large to start; None when all fit."""
    total = 0
    for container in containers:
        inputs = list(_process_inputs(container))
        if not inputs:
            continue
        largest = max(inputs, key=lambda item: item.size)
        if largest.size > STRING_BYTES:
            return (
                f"{largest.field} takes {largest.size} bytes, and a process accepts"
                f" {STRING_BYTES} in one argument or variable: shorten it, or put it into a file"
            )
        container_bytes = sum(item.size + _POINTER_BYTES for item in inputs)
        total += container_bytes
        if container_bytes > TOTAL_BYTES:
            return (
                f"the arguments and variables of container {container['name']} take"
                f" {container_bytes} bytes,"
                f" and a process accepts {TOTAL_BYTES}: the largest is {largest.field} with"
                f" {largest.size}; shorten it, or put it into a file"
            )
        if total > OBJECT_BYTES:
            return (
                f"the arguments and variables of {len(containers)} containers take more than the"
                f" {OBJECT_BYTES} bytes that one pod may have: the largest is {largest.field} with"
                f" {largest.size} in each; shorten it or declare fewer checks"
            )
    return None


def _process_inputs(container: Body) -> Iterator[_ProcessInput]:
    name = container["name"]
    for key in ("command", "args"):
        for index, text in enumerate(container.get(key) or ()):
            size = len(_unescape_dollars(text).encode()) + 1
            yield _ProcessInput(f"{key}[{index}] of container {name}", size)
    for variable in container.get("env") or ():
        if "value" in variable:
            yield _variable_input(variable)


def _variable_input(variable: Mapping[str, str]) -> _ProcessInput:
    name = variable["name"]
    field = _FIELDS.get(name, f"env {name}")
    return _ProcessInput(field, _variable_size(name, _unescape_dollars(variable["value"])))


def _variable_size(name: str, value: str) -> int:
    return len(name) + len("=") + len(value.encode()) + 1


def _unescape_dollars(text: str) -> str:
    """Replace each `$$`, which Kubernetes passes on as `$`."""
    return text.replace("$$", "$")
