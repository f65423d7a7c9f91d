"""The route class of every endpoint: from the bytes of a request to the bytes of its response.

FastAPI declares the routes and generates the OpenAPI document. It does not run them: its path from
the socket to a function takes three threads and more than a millisecond. `Endpoint` reads FastAPI's
analysis of each signature once, and then handles requests itself:

authenticate -> count the request -> read the body -> (in a thread) validate, call, serialise

Unknown fields and parameters are rejected; `request_bodies` bounds and parses the body.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pydantic
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from knowledge_client import base_model
from knowledge_client.models import ProblemViolation
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import InvalidBody
from knowledge_service.open_reads import OpenRead
from knowledge_service.routes import dependencies, request_bodies, unknown_fields
from knowledge_service.use_cases import concurrency_limits
from knowledge_service.use_cases.offload import Offload
from knowledge_service.use_cases.services import Services

# Validating a body of this size takes less time than starting a thread.
_INLINE_BYTES = 16 * 1024
# The bodies of clients that send JSON even if the request has no content.
_EMPTY = (b"", b"{}", b"null")
_MAX_VIOLATIONS = 50  # of one request; more than anyone fixes at once
_NO_CONTENT = 204
_KEY = dependencies.KEY_HEADER.lower().encode()
_SPEAK_AS = base_model.SPEAK_AS_HEADER.lower().encode()
_NOT_SENT_AS_JSON = ProblemViolation(
    path="", message="send the body as JSON, with the header Content-Type: application/json"
)


class Endpoint(APIRoute):
    """A route whose parameters and body are validated strictly.

    A plain function runs in a thread, in one of its caller's slots. A coroutine function runs on
    the event loop: it takes an `Offload` for what needs a thread.
    """

    refuses_unknown = True

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._inputs = _Inputs(self.dependant)
        self._is_async = inspect.iscoroutinefunction(endpoint)
        self._serializer = TypeAdapter(self.response_model)
        self.app = self._serve

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        services: Services = scope["app"].state.services
        read = OpenRead(services.open_reads)
        try:
            if self._inputs.needs_caller:
                response = await self._respond_to_caller(request, services, read)
            else:
                call = _Call(request, services, None, b"", {})
                response = await self._respond_async(call)
            await response(scope, receive, send)
        finally:
            read.end()

    async def _respond_to_caller(
        self, request: Request, services: Services, read: OpenRead
    ) -> Response:
        scope = request.scope
        limit = (
            request_bodies.max_bytes(scope["path"])
            if self._inputs.body_model
            else request_bodies.NO_BODY_BYTES
        )
        # The first of repeated headers counts, as in Starlette.
        headers = dict(reversed(scope["headers"]))
        length = _text(headers.get(b"content-length"))
        request_bodies.check_length(length, limit)
        # A body costs memory and time, so only those of authenticated callers are read.
        authorization = _text(headers.get(b"authorization")) or ""
        request_line = (scope["method"], scope["path"], length)
        speak_as = _text(headers.get(_SPEAK_AS))
        is_kept = self._inputs.takes_key and _KEY in headers
        principal = await dependencies.authenticate(
            services, authorization, request_line, speak_as, is_kept=is_kept
        )
        scope[dependencies.PRINCIPAL] = principal
        size = dependencies.body_bytes(scope["method"], length)
        with services.concurrency_limiter.count_call(principal, size):
            # Before waiting for a slot, so that a slow sender delays no other caller.
            body = await request_bodies.read(request.receive, limit)
            offload = Offload(services, principal, body)
            call = _Call(request, services, offload, body, headers)
            if self._is_async:
                response = await self._respond_async(call)
            else:
                kind = concurrency_limits.slot_kind_of(scope["method"], scope["path"])
                respond = functools.partial(self._respond, call)
                # Writes return facts, too.
                response = await offload.run(respond, kind, read.begin)
            if is_kept:
                services.rate_limiter.owe(principal, {"bytes": len(response.body)})
            return response

    def _respond(self, call: _Call) -> Response:
        arguments = self._arguments(call)
        return self._response(call, self.endpoint(**arguments))

    async def _respond_async(self, call: _Call) -> Response:
        read = functools.partial(self._arguments, call)
        if call.offload is None or len(call.body) <= _INLINE_BYTES:
            arguments = read()
        else:
            arguments = await call.offload.run(read)
        return self._response(call, await self.endpoint(**arguments))

    def _response(self, call: _Call, value: Any) -> Response:
        if isinstance(value, Response):
            return value
        draft = call.response
        status = (draft.status_code if draft else 0) or self.status_code or 200
        if status == _NO_CONTENT:
            return Response(status_code=status)
        body = self._serializer.dump_json(value, by_alias=True)
        return Response(body, status, draft.headers if draft else None, "application/json")

    def _arguments(self, call: _Call) -> dict[str, Any]:
        """Validate the request.

        Raises:
            InvalidBody: with all violations, up to `_MAX_VIOLATIONS`.
        """
        inputs = self._inputs
        value = request_bodies.parse_json(call.body) if inputs.body_model and call.body else None
        if self.refuses_unknown:
            self._refuse_unknown(call, value)
        violations: list[ProblemViolation] = []
        arguments = inputs.parameters(call, violations)
        arguments |= inputs.body(call, value, violations)
        if violations:
            listed_violations = tuple(violations[:_MAX_VIOLATIONS])
            raise InvalidBody("the request is invalid for this route", listed_violations)
        for name, provide in inputs.providers:
            arguments[name] = provide(call)
        return arguments

    def _refuse_unknown(self, call: _Call, value: Any) -> None:
        inputs, request = self._inputs, call.request
        unknown: Iterator[ProblemViolation] = iter(())
        if request.scope["query_string"]:
            unknown = unknown_fields.unknown_parameters(request.query_params, inputs.query_names)
        if inputs.body_model:
            unknown = chain(unknown, unknown_fields.unknown_body_fields(inputs.body_model, value))
        elif call.body.strip() not in _EMPTY:
            unknown = chain(unknown, [unknown_fields.NO_BODY])
        violations = tuple(islice(unknown, _MAX_VIOLATIONS))
        if violations:
            raise InvalidBody("the request has unknown parameters or fields", violations)


class LenientEndpoint(Endpoint):
    """A route that ignores fields and parameters that it does not have.

    Older clients send fields of another service, and monitors add parameters of their own, for
    example to bypass caches.
    """

    refuses_unknown = False


class _Call:
    """A request with its body; `offload` is None for routes without authentication."""

    def __init__(
        self, request: Request, services: Services, offload: Offload | None, body: bytes,
        headers: Mapping[bytes, bytes],
    ) -> None:  # fmt: skip
        self.request = request
        self.services = services
        self.offload = offload
        self.body = body
        self.headers = headers
        self.response: Response | None = None

    def make_response(self) -> Response:
        """Return a draft on which the function sets the status and headers of its response."""
        self.response = Response(status_code=0)
        del self.response.headers["content-length"]
        return self.response

    def record_run(self, key: RunKey) -> None:
        """Record the run that the request wrote, for its trace."""
        self.request.scope[dependencies.RUN] = key


_PROVIDERS: Mapping[Any, Callable[[_Call], Any]] = {
    dependencies.services: lambda call: call.services,
    dependencies.caller: lambda call: call.offload.principal if call.offload else None,
    dependencies.offload: lambda call: call.offload,
    dependencies.record_run: lambda call: call.record_run,
}


@dataclass(frozen=True)
class _Location:
    """The parameters of one part of a request, `path`, `query` or `header`."""

    name: str
    model: type[BaseModel]
    fields: tuple[tuple[str, bool], ...]
    """The name of each in a request, and whether it may be repeated."""
    argument: str | None
    """The argument that receives the whole model; None when each field is an argument."""
    defaults: Mapping[str, Any] | None
    """The arguments when a request has none of the fields; None when validation is needed."""

    @classmethod
    def of(cls, name: str, fields: Sequence[Any]) -> Iterator[_Location]:
        single: dict[str, Any] = {}
        for field in fields:
            info: FieldInfo = field.field_info
            if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
                yield cls(name, info.annotation, _wire_names(info.annotation), field.name, None)
            else:
                if name == "header" and not info.alias:
                    raise TypeError(f"the header {field.name} has no alias")
                single[field.name] = (info.annotation, info)
        if single:
            model = create_model(name.capitalize(), **single)
            declared = model.model_fields.values()
            is_fixed = not any(
                model_field.is_required() or model_field.default == [] for model_field in declared
            )
            yield cls(name, model, _wire_names(model), None, model().__dict__ if is_fixed else None)

    def read(self, call: _Call, violations: list[ProblemViolation]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        request = call.request
        if self.name == "path":
            values = request.path_params
        elif self.name == "header":
            sent = {name: call.headers.get(name.lower().encode()) for name, _ in self.fields}
            values = {name: _text(value) for name, value in sent.items() if value is not None}
        elif request.scope["query_string"]:
            query = request.query_params
            values = {
                name: query.getlist(name) if is_list else query[name]
                for name, is_list in self.fields
                if name in query
            }
        if not values and self.defaults is not None:
            return dict(self.defaults)
        try:
            read = self.model.model_validate(values)
        except pydantic.ValidationError as exc:
            violations += _violations(exc, self.name)
            return {}
        return {self.argument: read} if self.argument else dict(read.__dict__)


class _Inputs:
    """The inputs of a route's function, by their source."""

    def __init__(self, dependant: Dependant) -> None:
        self.body_name, self.body_model = _body_of(dependant)
        self.locations = tuple(_locations(dependant))
        self.providers: list[tuple[str, Callable[[_Call], Any]]] = []
        self.factories: list[tuple[str, Callable[..., Any], tuple[_Location, ...]]] = []
        for dependency in dependant.dependencies:
            provide = _PROVIDERS.get(dependency.call)
            if provide:
                self.providers.append((str(dependency.name), provide))
            elif dependency.call and not dependency.dependencies and not dependency.body_params:
                self.factories.append(
                    (str(dependency.name), dependency.call, tuple(_locations(dependency)))
                )
            else:
                raise TypeError(f"{dependant.call}: {dependency.call} is not supported")
        if dependant.request_param_name:
            self.providers.append((dependant.request_param_name, lambda call: call.request))
        if dependant.response_param_name:
            self.providers.append((dependant.response_param_name, _Call.make_response))
        self.takes_key = any(
            name == dependencies.KEY_HEADER
            for location in self.locations
            for name, _ in location.fields
        )
        callers = (dependencies.caller, dependencies.offload)
        self.needs_caller = any(dependency.call in callers for dependency in dependant.dependencies)
        all_locations = [*self.locations, *chain(*(locations for *_, locations in self.factories))]
        self.query_names = frozenset(
            name
            for dependency in all_locations
            if dependency.name == "query"
            for name, _ in dependency.fields
        )

    def parameters(self, call: _Call, violations: list[ProblemViolation]) -> dict[str, Any]:
        """Validate the parameters; errors are appended to `violations`."""
        arguments: dict[str, Any] = {}
        for name, factory, locations in self.factories:
            values: dict[str, Any] = {}
            count = len(violations)
            for location in locations:
                values |= location.read(call, violations)
            if len(violations) == count:
                arguments[name] = factory(**values)
        for location in self.locations:
            arguments |= location.read(call, violations)
        return arguments

    def body(
        self, call: _Call, value: Any, violations: list[ProblemViolation]
    ) -> dict[str, BaseModel]:
        """Validate the parsed body; errors are appended to `violations`."""
        if self.body_model is None:
            return {}
        if value is None:
            violations.append(ProblemViolation(path="", message="Field required"))
        elif not request_bodies.is_json(call.headers.get(b"content-type", b"")):
            violations.append(_NOT_SENT_AS_JSON)
        else:
            try:
                return {self.body_name: self.body_model.model_validate(value)}
            except pydantic.ValidationError as exc:
                violations += _violations(exc)
        return {}


def _body_of(dependant: Dependant) -> tuple[str, type[BaseModel] | None]:
    bodies = dependant.body_params
    if dependant.cookie_params or len(bodies) > 1:
        raise TypeError(f"{dependant.call}: cookies and several bodies are not supported")
    for parameter in bodies:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            return parameter.name, model
        raise TypeError(f"{dependant.call}: a body must be a model")
    return "", None


def _locations(dependant: Dependant) -> Iterator[_Location]:
    yield from _Location.of("path", dependant.path_params)
    yield from _Location.of("query", dependant.query_params)
    yield from _Location.of("header", dependant.header_params)


def _wire_names(model: type[BaseModel]) -> tuple[tuple[str, bool], ...]:
    """Return the name of each field in a request, and whether it may be repeated."""
    return tuple(
        (field.alias or name, typing.get_origin(field.annotation) is list)
        for name, field in model.model_fields.items()
    )


def _violations(exc: pydantic.ValidationError, *prefix: str) -> Iterator[ProblemViolation]:
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    for error in errors[:_MAX_VIOLATIONS]:
        path = ".".join(str(part) for part in (*prefix, *error["loc"]))
        yield ProblemViolation(path=path, message=str(error["msg"]))


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")
