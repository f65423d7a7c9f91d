"""Read one object of a kind in the session's namespace, or write a list of them."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kais.errors import InvalidResource
from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.views import jsonpath, output, table_layout
from kais_cli.views.output import Format, Listing

if TYPE_CHECKING:
    from kais.resources.base import Resource
    from kais_cli.ports import Body
    from kais_cli.session import Session

_Kind = TypeVar("_Kind", bound="Resource")

_GROUPS = {
    "Blueprint": "blueprint",
    "BlueprintInstance": "instance",
    "Formation": "formation",
    "Cell": "cell",
    "Mission": "mission",
}
"""The group of commands about each kind."""


_SUMMARIES = {"Mission": "Succeeded"}
"""The condition that summarises a kind, if that is not Ready."""


@dataclass(frozen=True)
class Selection:
    """The objects of a list: those of one namespace or of all, with some labels or with any.

    With `watch`, each object that changes is written again, until the user interrupts. `sort_by` is
    the path of a field, for the first list of a watch; without it, the order is that of the names.
    """

    all_namespaces: bool = False
    labels: str = ""
    watch: bool = False
    sort_by: str = ""
    has_headers: bool = True


@dataclass(frozen=True)
class Table:
    """The columns of a list for people; `row` formats the cells of one object."""

    headers: Sequence[str]
    row: Callable[[Body], Sequence[object]]


def read_valid(session: Session, kind: type[_Kind], bodies: Iterable[Body]) -> list[_Kind]:
    """Read the objects that are valid, and note the others.

    One that another version stored may be invalid, and must not hide the rest.
    """
    resources = []
    for body in bodies:
        try:
            resources.append(kind.from_dict(body))
        except InvalidResource as exc:
            _note_invalid(session, body, exc)
    return resources


def _note_invalid(session: Session, body: Body, failure: InvalidResource) -> None:
    metadata = body["metadata"]
    name, namespace, group = metadata["name"], metadata["namespace"], _GROUPS[body["kind"]]
    session.note(
        f"warning: {body['kind']}/{namespace}/{name} is not valid: {failure.violations[0]};"
        f" `kais {group} show {name} -n {namespace} -o yaml` shows it as it is stored"
    )


def get(session: Session, kind: str, name: str) -> Body:
    """Read one object.

    Raises:
        Refused: There is no object of that name.
    """
    body = session.cluster.get(kind, session.namespace, name)
    if body is None:
        raise missing(session, kind, name)
    return body


def missing(session: Session, kind: str, name: str) -> errors.Refused:
    """Return the error for an object that does not exist, with advice."""
    advice = _advice(session, kind, name)
    return errors.Refused(f"{kind}/{session.namespace}/{name} does not exist; {advice}")


def _advice(session: Session, kind: str, name: str) -> str:
    """Return advice about a missing object, as far as the user may read the cause."""
    missing_namespace = _missing_namespace(session)
    if missing_namespace is not None:
        return missing_namespace
    names: list[str] = []
    elsewhere: list[str] = []
    with contextlib.suppress(errors.CliError):
        bodies = session.cluster.list(kind, session.namespace)
        names = [body["metadata"]["name"] for body in bodies]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]}? see `kais {_GROUPS[kind]} list`"
    with contextlib.suppress(errors.CliError):
        elsewhere = [
            body["metadata"]["namespace"]
            for body in session.cluster.list(kind)
            if body["metadata"]["name"] == name
        ]
    if elsewhere:
        return f"it exists in {', '.join(elsewhere)}: add -n {elsewhere[0]}"
    return f"see `kais {_GROUPS[kind]} list`"


def _missing_namespace(session: Session) -> str | None:
    """Return advice about a namespace that does not exist; None if it may exist."""
    namespaces: list[str] = []
    with contextlib.suppress(errors.CliError):
        namespaces = [body["metadata"]["name"] for body in session.cluster.list("Namespace")]
    if not namespaces or session.namespace in namespaces:
        return None
    close = difflib.get_close_matches(session.namespace, namespaces, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return (
        f"there is no namespace {session.namespace}; {suggestion}`kubectl create namespace"
        f" {session.namespace}` creates it"
    )


def write_object(
    session: Session, body: Body, form: Format | jsonpath.Template, *, detail: Callable[[Body], str]
) -> ExitStatus:
    """Write one object; `detail` formats it for people."""
    session.write(detail(body) if form is Format.TABLE else output.dump_object(body, form))
    return ExitStatus.SUCCEEDED


def write_acknowledgement(session: Session, body: Body, message: str, form: Format) -> ExitStatus:
    """Note what happens to an object, and write its name, or the object itself."""
    if form is Format.TABLE:
        session.note(message)
        session.write(output.format_names([body], kind=body["kind"]))
    else:
        session.write(output.dump_object(body, form))
    return ExitStatus.SUCCEEDED


def write_list(
    session: Session, kind: str, format_: str, selection: Selection, *, table: Table
) -> ExitStatus:
    """Write the selected objects of a kind; `table` formats them for people.

    The format `wide` adds the reason and the message of the condition that summarises an object.

    Raises:
        UsageError: There is no such format, a path or template cannot be read, or a watch has a
            format that is one document.
    """
    form = output.parse_list_format(format_)
    order = jsonpath.parse_path(selection.sort_by) if selection.sort_by else None
    namespace = None if selection.all_namespaces else session.namespace
    table = _with_summary(table) if form is Listing.WIDE else table
    if selection.watch:
        if form in (Listing.JSON, Listing.YAML) or isinstance(form, jsonpath.Template):
            raise errors.UsageError(f"--watch writes a table or names; leave out -o {format_}")
        return _watch_list(session, kind, form, selection, table=table, order=order)
    bodies = _ordered(session.cluster.list(kind, namespace, labels=selection.labels), order)
    if form is Listing.NAME:
        session.write(output.format_names(bodies, kind=kind))
    elif form in (Listing.JSON, Listing.YAML) or isinstance(form, jsonpath.Template):
        session.write(output.dump_list(bodies, form))
    elif not bodies:
        searched_namespaces = f"in namespace {namespace}" if namespace else "in any namespace"
        labels = f" with the labels {selection.labels}" if selection.labels else ""
        missing_namespace = _missing_namespace(session) if namespace else None
        advice = f"; {missing_namespace}" if missing_namespace else ""
        session.note(f"no {_GROUPS[kind]}s{labels} {searched_namespaces}{advice}")
    else:
        columns = _columns(table, selection)
        session.write(columns.format_rows(_rows(session, bodies, table, selection)))
    return ExitStatus.SUCCEEDED


def _ordered(bodies: Sequence[Body], order: jsonpath.Path | None) -> Sequence[Body]:
    return jsonpath.sorted_by(bodies, order) if order else bodies


def _watch_list(
    session: Session,
    kind: str,
    form: Listing,
    selection: Selection,
    *,
    table: Table,
    order: jsonpath.Path | None,
) -> ExitStatus:
    namespace = None if selection.all_namespaces else session.namespace
    columns = _columns(table, selection)
    for listed in session.cluster.watch_list(kind, namespace, labels=selection.labels):
        bodies = _ordered(listed, order)
        if form is Listing.NAME:
            session.write(output.format_names(bodies, kind=kind))
        else:
            session.write(columns.format_rows(_rows(session, bodies, table, selection)))
        session.environment.write()
    return ExitStatus.SUCCEEDED


def _with_summary(table: Table) -> Table:
    """Add the reason and the message of the condition Ready, of a Mission Succeeded."""

    def row(body: Body) -> Sequence[object]:
        summary = _SUMMARIES.get(body["kind"], "Ready")
        conditions = body.get("status", {}).get("conditions", ())
        summaries = (each for each in conditions if each["type"] == summary)
        condition: Body = next(summaries, {})
        return (*table.row(body), condition.get("reason"), condition.get("message"))

    return Table((*table.headers, "REASON", "MESSAGE"), row)


def _columns(table: Table, selection: Selection) -> table_layout.Columns:
    headers = [*(["NAMESPACE"] if selection.all_namespaces else []), *table.headers]
    return table_layout.Columns(headers, has_header=selection.has_headers)


def _rows(
    session: Session, bodies: Sequence[Body], table: Table, selection: Selection
) -> list[list[object]]:
    """Return a row for each object; of one that is not valid, only its name, and a note."""
    rows = []
    for body in bodies:
        namespace = [body["metadata"]["namespace"]] if selection.all_namespaces else []
        try:
            row = table.row(body)
        except InvalidResource as exc:
            _note_invalid(session, body, exc)
            row = (body["metadata"]["name"], *[None] * (len(table.headers) - 1))
        rows.append([*namespace, *row])
    return rows
