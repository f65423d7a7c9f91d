"""The trace context of a run, as a `traceparent` of W3C Trace Context.

A run without one gets a trace of its own, derived from its run-id, so that every part that knows
the run knows its trace.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from kais import labels

HEADER = "traceparent"
ENV_TRACEPARENT = "TRACEPARENT"
_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_SAMPLED = "01"


def parse(text: str | None) -> str | None:
    """Return a valid traceparent; None for all other texts."""
    return text if text is not None and _FORM.fullmatch(text) else None


def derive(run_id: str) -> str:
    """Return the traceparent of a run without its own; trace and span derive from the run-id."""
    digest = hashlib.sha256(f"kais.io/run/{run_id}".encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-{_SAMPLED}"


def of_run(annotations: Mapping[str, str], run_id: str) -> str:
    """Return the traceparent of a run: the one on its object, else the derived one.

    A traceparent that was derived for an earlier run of the object is replaced.
    """
    carried = parse(annotations.get(labels.TRACEPARENT))
    previous = annotations.get(labels.RUN_ID)
    if carried is None or (previous is not None and carried == derive(previous)):
        return derive(run_id)
    return carried


def is_exported(variables: Mapping[str, str]) -> bool:
    """Whether the `OTEL_*` variables name an endpoint for spans and do not disable them."""
    endpoint = variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or variables.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    exporter = variables.get("OTEL_TRACES_EXPORTER") or "otlp"
    is_disabled = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return bool(endpoint) and exporter == "otlp" and not is_disabled
