"""The deterministic names of the objects that kais creates, and hashes and ids of specs and runs.

Names are deterministic so that a repeated create finds the result of the first one. A truncated
name contains a hash of the full name, so that two long names never share a child.
"""

import hashlib
import json
import re
from typing import Any

LIMIT = 63
"""The maximum length of a DNS label, and so of Service names and label values."""
_HASH_LENGTH = 8
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_FOREIGN = re.compile(r"[^a-z0-9-]+")


def is_dns_label(text: str) -> bool:
    """Whether a text is a valid DNS label: 1 to 63 of a-z, 0-9 and inner hyphens."""
    return len(text) <= LIMIT and _LABEL.fullmatch(text) is not None


def short_hash(text: str, *, length: int = _HASH_LENGTH) -> str:
    """Return the first characters of a text's SHA-256, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def cut(name: str, *, limit: int = LIMIT) -> str:
    """Convert a name to a DNS label of at most `limit` characters.

    A valid label that fits stays unchanged. Any other name loses its invalid characters and its
    end, and gets a hash of the full name.
    """
    if len(name) <= limit and is_dns_label(name):
        return name
    prefix = _FOREIGN.sub("-", name.lower())[: limit - _HASH_LENGTH - 1].strip("-")
    return f"{prefix}-{short_hash(name)}".strip("-")


def label_value(name: str) -> str:
    """Return a label value for the name of an object, which may be longer than a label allows."""
    return cut(name)


def short_cell_name(template: str, index: int) -> str:
    """Return the address of a cell inside its formation: `lead-0`."""
    return f"{template}-{index}"


def cell_name(formation: str, template: str, index: int) -> str:
    """Return the name of the Cell of one replica; the prefix is the name of its formation."""
    return cut(f"{formation}-{short_cell_name(template, index)}")


def revision_name(blueprint: str, number: int) -> str:
    """Return the name of a revision, `<blueprint>-r00001`; names sort like numbers."""
    return cut(f"{blueprint}-r{number:05d}")


def job_name(mission: str, attempt: int) -> str:
    """Return the name of the Job of one attempt, `<mission>-a<n>`; a second create fails."""
    return cut(f"{mission}-a{attempt}")


def topology_map_name(formation: str) -> str:
    """Return the name of the ConfigMap with the peers of each cell of a formation."""
    return cut(f"topology-{formation}")


def knowledge_map_name(job: str) -> str:
    """Return the name of the immutable ConfigMap with the facts that were recalled for a Job."""
    return cut(f"{job}-knowledge")


def deployment_name(cell: str) -> str:
    """Return the name of a cell's Deployment, short enough for Kubernetes' suffixes."""
    return cell if len(cell) <= LIMIT else cut(cell)


def service_name(cell: str) -> str:
    """Return the name of a cell's Service, a DNS label that starts with a letter."""
    return cut(cell if cell[:1].isalpha() else f"c-{cell}")


def cell_spec_map_name(cell: str) -> str:
    """Return the name of the ConfigMap with a cell's spec, if it is too large for a variable."""
    return cut(f"{cell}-cell-spec")


def workspace_claim_name(formation: str) -> str:
    """Return the name of the volume claim that the cells of a formation share."""
    return cut(f"workspace-{formation}")


def run_id(uid: str, nonce: str = "") -> str:
    """Return the UUID of a run, which is the same for the same object and nonce.

    It is deterministic so that an operator that crashes between choosing and stamping the id
    chooses the same one again. The format is UUID version 8 (RFC 9562: custom bits, here from
    SHA-256).
    """
    digest = bytearray(hashlib.sha256(f"{uid}/{nonce}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def spec_hash(spec: Any) -> str:
    """Hash a JSON tree; the order of keys and `5` against `5.0` make no difference.

    Returns 16 hex characters: short enough for a label, long enough that specs of one Blueprint do
    not collide.
    """
    return short_hash(_CANONICAL.encode(_normal(spec)), length=16)


_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {
            str(key): item if type(item) is str else _normal(item) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [item if type(item) is str else _normal(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
