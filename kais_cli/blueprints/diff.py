"""What changes between two templates, and in the objects of each live use."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kais import compatibility, names
from kais.errors import InvalidResource
from kais.resources import blueprint_revision
from kais.resources.blueprint import TemplateSpec
from kais.resources.blueprint_instance import BlueprintInstance
from kais_cli.blueprints import lookup, manifests, render_requests, revisions
from kais_cli.error_messages import failures
from kais_cli.errors import UsageError
from kais_cli.views import output, yaml_key_order

if TYPE_CHECKING:
    from kais.impacts import Impact
    from kais_cli.ports import Body
    from kais_cli.session import Session

_MANY = 10
"""From so many uses on it is told on stderr how far it has come."""


@dataclass(frozen=True)
class UseDifference:
    """What a new template changes in the objects of one use.

    Attributes:
        lines: A unified diff of the objects; empty when nothing changes.
        problems: Why the new template cannot be rendered with this use's parameters.
        note: What stays although the template says otherwise, or why nothing can be compared.
    """

    name: str
    policy: str
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Difference:
    """What changes from one template to another."""

    before: str
    after: str
    changes: str
    breaking: tuple[str, ...]
    lines: tuple[str, ...]
    uses: tuple[UseDifference, ...] | None = None

    def text(self) -> str:
        """Write it for people."""
        if not self.changes and not self.lines:
            parts = [f"{self.before} and {self.after} have the same template\n"]
        else:
            parts = [f"{self.before} → {self.after}:\n", output.indented(_sentences(self.changes))]
            if self.breaking:
                parts += ["\nMay break uses:\n", output.indented("\n".join(self.breaking))]
            parts += ["\nTemplate:\n", output.indented("\n".join(self.lines))]
        if self.uses is not None:
            parts.append(_uses(self.uses))
        return "".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Give the same for programs."""
        tree: dict[str, Any] = {
            "before": self.before,
            "after": self.after,
            "changes": self.changes,
            "breaking": list(self.breaking),
            "diff": "\n".join(self.lines),
        }
        if self.uses is not None:
            tree["uses"] = [
                {
                    "name": use.name,
                    "updatePolicy": use.policy,
                    "diff": "\n".join(use.lines),
                    "problems": list(use.problems),
                    "note": use.note,
                }
                for use in self.uses
            ]
        return tree


def of_revisions(
    session: Session, name: str, *, older: int | None, newer: int | None
) -> Difference:
    """Compare two kept revisions; by default the one that serves and the newest one.

    With the newest one serving, it is compared to the one before.

    Raises:
        Refused: one of them does not exist.
    """
    blueprint, found = revisions.read(session, name)
    latest = newer or (found[0].spec.revision if found else 1)
    start = older or blueprint.status.served_revision or latest
    if older is None and start == latest:
        start = max((r.spec.revision for r in found if r.spec.revision < latest), default=latest)
    before = revisions.one(session, name, start).spec.template()
    after = revisions.one(session, name, latest).spec.template()
    return _compared(before, after, (f"revision {start}", f"revision {latest}"))


def of_file(session: Session, name: str, *, file: Path, older: int | None) -> Difference:
    """Compare what serves with a file, and render both for every use that is there.

    Raises:
        Refused: there is no such blueprint or revision.
        UsageError: the file has no such Blueprint, or one that does not compile.
    """
    revision = lookup.revision(session, name, number=older)
    try:
        wanted = manifests.one(file, name)
    except InvalidResource as exc:
        raise UsageError(failures.lines(exc)) from exc
    after = TemplateSpec.from_dict(blueprint_revision.template_of(wanted.spec))
    subject = f"Blueprint {name} in {file}"
    report = render_requests.compile_spec(after.to_dict(), subject=subject)
    if not report.is_good:
        listed = "".join(f"\n  {problem}" for problem in report.errors or (report.message,))
        raise UsageError(f"{subject} does not compile:{listed}")
    made = _compared(
        revision.spec.template(), after, (f"revision {revision.spec.revision}", str(file))
    )
    return replace(made, uses=tuple(_of_uses(session, name, after, subject)))


def _of_uses(
    session: Session, name: str, after: TemplateSpec, subject: str
) -> Iterator[UseDifference]:
    """Compare every use; those that stand on a revision are rendered, in one process."""
    bodies = session.cluster.list("BlueprintInstance", session.namespace)
    uses = [BlueprintInstance.from_dict(body) for body in bodies]
    own = [use for use in uses if use.spec.blueprint_ref.name == name]
    numbers = {use.metadata.name: use.status.revision_in_use for use in own}
    kept = {number: _kept(session, name, number) for number in {*numbers.values()} if number}
    present = {n: body for n, number in numbers.items() if number and (body := kept[number])}
    compared = [body for body in bodies if body["metadata"]["name"] in present]
    found = render_requests.impacts(after.to_dict(), compared, revisions=present, subject=subject)
    for count, use in enumerate(own):
        if len(own) >= _MANY and count % _MANY == 0:
            session.note(f"comparing the uses: {count} of {len(own)}")
        yield _told(use, next(found)) if use.metadata.name in present else _incomparable(use)


def _incomparable(use: BlueprintInstance) -> UseDifference:
    number = use.status.revision_in_use
    gone = f"its revision {number} is not kept any more, so nothing can be compared"
    note = gone if number else "it stands on no revision yet"
    return UseDifference(use.metadata.name, str(use.spec.update_policy), note=note)


def _kept(session: Session, name: str, number: int) -> Body | None:
    revision = names.revision_name(name, number)
    return session.cluster.get("BlueprintRevision", session.namespace, revision)


def _told(use: BlueprintInstance, impact: Impact) -> UseDifference:
    name = use.metadata.name
    lines = [
        line
        for change in impact.changes
        for line in _lines(change.before, change.after, f"{change.kind}/{name}")
    ]
    policy = str(use.spec.update_policy)
    return UseDifference(name, policy, tuple(lines), impact.problems, impact.note)


def _compared(before: TemplateSpec, after: TemplateSpec, names: tuple[str, str]) -> Difference:
    found = compatibility.compare(before, after)
    lines = _lines(_written(before), _written(after), *names)
    return Difference(names[0], names[1], found.changes, found.breaking, tuple(lines))


def _lines(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, before: str, after: str = ""
) -> list[str]:
    left, right = (
        output.dump(tree, output.Format.YAML).splitlines() if tree else []
        for tree in (yaml_key_order.like(old, new), new)
    )
    return list(difflib.unified_diff(left, right, before, after or before, lineterm="", n=2))


def _written(template: TemplateSpec) -> dict[str, Any]:
    """Give a template as a person would write it: without defaults, bounds as plain numbers."""
    tree = template.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for parameter in tree.get("parameters", []):
        for bound in ("min", "max"):
            value = parameter.get(bound)
            if isinstance(value, float) and value.is_integer():
                parameter[bound] = int(value)
    return tree


def _sentences(changes: str) -> str:
    return changes.replace("; ", "\n")


def _uses(found: Sequence[UseDifference]) -> str:
    if not found:
        return "\nLive uses: none\n"
    parts = ["\nLive uses:\n"]
    for use in found:
        head = f"{use.name} (updatePolicy {use.policy})"
        if use.problems:
            parts.append(f"  {head}: cannot take it\n")
            parts.append(output.indented("\n".join(use.problems), "    "))
        elif not use.lines:
            parts.append(f"  {head}: {use.note or 'nothing changes'}\n")
        else:
            parts.append(f"  {head}:\n")
            parts.append(output.indented("\n".join(use.lines), "    "))
            parts.append(f"    ({use.note})\n" if use.note else "")
    return "".join(parts)
