"""Removes texts from spans before they are sent: errors quote what models and tools wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status

_ERROR_TEXTS: Final = frozenset({"exception.message", "exception.stacktrace"})


class ContentFilter(SpanExporter):
    """Passes spans on without the key of the model, and without texts unless they are wanted."""

    def __init__(
        self, inner: SpanExporter, mask: Callable[[str], str], *, has_content: bool
    ) -> None:
        self._inner = inner
        self._mask = mask
        self._has_content = has_content

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        return self._inner.export([self._filtered(span) for span in spans])

    def shutdown(self) -> None:
        """Stop sending."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Send what is left."""
        return self._inner.force_flush(timeout_millis)

    def _filtered(self, span: ReadableSpan) -> ReadableSpan:
        description = span.status.description if self._has_content else None
        return ReadableSpan(
            name=self._mask(span.name),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=self._attributes(span.attributes),
            events=[
                Event(self._mask(event.name), self._attributes(event.attributes), event.timestamp)
                for event in span.events
            ],
            links=span.links,
            kind=span.kind,
            status=Status(span.status.status_code, self._mask(description or "") or None),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _attributes(self, attributes: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            name: self._masked(value)
            for name, value in (attributes or {}).items()
            if self._has_content or name not in _ERROR_TEXTS
        }

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, Mapping):
            return {name: self._masked(item) for name, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self._masked(item) for item in value]
        return value
