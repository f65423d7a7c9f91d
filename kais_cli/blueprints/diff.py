"""Compare two templates, and the objects that each live instance would have with them."""

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
from kais_cli.cluster import resource_access
from kais_cli.error_messages import failures
from kais_cli.errors import UsageError
from kais_cli.views import output, text_layout, yaml_key_order

if TYPE_CHECKING:
    from kais.change_preview import ChangePreview
    from kais_cli.ports import Body
    from kais_cli.session import Session

_PROGRESS_INTERVAL = 10
"""How many instances are compared between two lines of progress on stderr."""


@dataclass(frozen=True)
class InstanceDiff:
    """The changes that a new template makes to the objects of one instance.

    Attributes:
        lines: A unified diff of the objects; empty if nothing changes.
        problems: Why the new template cannot be rendered with the parameters of the instance.
        note: The parts that stay although the template differs, or why nothing can be compared.
    """

    name: str
    policy: str
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class BlueprintDiff:
    """The changes from one template to another."""

    before: str
    after: str
    changes: str
    breaking: tuple[str, ...]
    lines: tuple[str, ...]
    uses: tuple[InstanceDiff, ...] | None = None

    def format_text(self) -> str:
        """Format the changes for people."""
        if not self.changes and not self.lines:
            parts = [f"{self.before} and {self.after} have the same template\n"]
        else:
            parts = [
                f"{self.before} → {self.after}:\n",
                text_layout.indent(_sentences(self.changes)),
            ]
            if self.breaking:
                parts += ["\nMay break instances:\n", text_layout.indent("\n".join(self.breaking))]
            parts += ["\nTemplate:\n", text_layout.indent("\n".join(self.lines))]
        if self.uses is not None:
            parts.append(_format_instances(self.uses))
        return "".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as a JSON tree."""
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


def diff_revisions(
    session: Session, name: str, *, older: int | None, newer: int | None
) -> BlueprintDiff:
    """Compare two kept revisions; by default the served one and the newest one.

    If the newest one is served, it is compared to the one before.

    Raises:
        Refused: One of them does not exist.
    """
    blueprint, revision_list = revisions.list_revisions(session, name)
    latest = newer or (revision_list[0].spec.revision if revision_list else 1)
    start = older or blueprint.status.served_revision or latest
    if older is None and start == latest:
        start = max(
            (r.spec.revision for r in revision_list if r.spec.revision < latest), default=latest
        )
    old_template = revisions.get(session, name, start).spec.template()
    new_template = revisions.get(session, name, latest).spec.template()
    return _diff_templates(old_template, new_template, (f"revision {start}", f"revision {latest}"))


def diff_file(session: Session, name: str, *, file: Path, older: int | None) -> BlueprintDiff:
    """Compare the served revision with a file, and render both for every live instance.

    Raises:
        Refused: There is no such blueprint or revision.
        UsageError: The file has no such Blueprint, or one that does not compile.
    """
    revision = lookup.revision(session, name, number=older)
    try:
        file_blueprint = manifests.load(file, name)
    except InvalidResource as exc:
        raise UsageError(failures.format_violations(exc)) from exc
    new_template = TemplateSpec.from_dict(blueprint_revision.template_of(file_blueprint.spec))
    subject = f"Blueprint {name} in {file}"
    report = render_requests.compile_spec(new_template.to_dict(), subject=subject)
    if not report.is_good:
        listed = "".join(f"\n  {problem}" for problem in report.errors or (report.message,))
        raise UsageError(f"{subject} does not compile:{listed}")
    diff = _diff_templates(
        revision.spec.template(), new_template, (f"revision {revision.spec.revision}", str(file))
    )
    return replace(diff, uses=tuple(_diff_instances(session, name, new_template, subject)))


def _blueprint_of(instance: Body) -> str | None:
    name: str | None = (instance.get("spec", {}).get("blueprintRef") or {}).get("name")
    return name


def _diff_instances(
    session: Session, name: str, new_template: TemplateSpec, subject: str
) -> Iterator[InstanceDiff]:
    """Compare every instance; those with a revision are rendered in one process."""
    bodies = session.cluster.list("BlueprintInstance", session.namespace)
    own = [body for body in bodies if _blueprint_of(body) == name]
    blueprint_instances = resource_access.read_valid(session, BlueprintInstance, own)
    numbers = {
        instance.metadata.name: instance.status.revision_in_use for instance in blueprint_instances
    }
    revision_bodies = {
        number: _get_revision(session, name, number) for number in {*numbers.values()} if number
    }
    bodies_by_instance = {
        n: body for n, number in numbers.items() if number and (body := revision_bodies[number])
    }
    comparable = [body for body in bodies if body["metadata"]["name"] in bodies_by_instance]
    impacts = render_requests.impacts(
        new_template.to_dict(), comparable, revisions=bodies_by_instance, subject=subject
    )
    for count, instance in enumerate(blueprint_instances):
        if len(blueprint_instances) >= _PROGRESS_INTERVAL and count % _PROGRESS_INTERVAL == 0:
            session.note(f"comparing the instances: {count} of {len(blueprint_instances)}")
        yield (
            _instance_diff(instance, next(impacts))
            if instance.metadata.name in bodies_by_instance
            else _incomparable(instance)
        )


def _incomparable(instance: BlueprintInstance) -> InstanceDiff:
    number = instance.status.revision_in_use
    missing_revision_note = f"its revision {number} was deleted, so nothing can be compared"
    note = missing_revision_note if number else "it has no revision yet"
    return InstanceDiff(instance.metadata.name, str(instance.spec.update_policy), note=note)


def _get_revision(session: Session, name: str, number: int) -> Body | None:
    revision = names.revision_name(name, number)
    return session.cluster.get("BlueprintRevision", session.namespace, revision)


def _instance_diff(instance: BlueprintInstance, impact: ChangePreview) -> InstanceDiff:
    name = instance.metadata.name
    lines = [
        line
        for change in impact.changes
        for line in _unified_diff(change.before, change.after, f"{change.kind}/{name}")
    ]
    policy = str(instance.spec.update_policy)
    return InstanceDiff(name, policy, tuple(lines), impact.problems, impact.note)


def _diff_templates(
    old_template: TemplateSpec, new_template: TemplateSpec, labels: tuple[str, str]
) -> BlueprintDiff:
    changes = compatibility.compare(old_template, new_template)
    lines = _unified_diff(_template_tree(old_template), _template_tree(new_template), *labels)
    return BlueprintDiff(labels[0], labels[1], changes.changes, changes.breaking, tuple(lines))


def _unified_diff(
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    old_label: str,
    new_label: str = "",
) -> list[str]:
    old_lines, new_lines = (
        output.dump(tree, output.Format.YAML).splitlines() if tree else []
        for tree in (yaml_key_order.order_keys_like(old, new), new)
    )
    return list(
        difflib.unified_diff(
            old_lines, new_lines, old_label, new_label or old_label, lineterm="", n=2
        )
    )


def _template_tree(template: TemplateSpec) -> dict[str, Any]:
    """Return a template as a person would write it: no defaults, and limits as plain numbers."""
    tree = template.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for parameter in tree.get("parameters", []):
        for bound in ("min", "max"):
            value = parameter.get(bound)
            if isinstance(value, float) and value.is_integer():
                parameter[bound] = int(value)
    return tree


def _sentences(changes: str) -> str:
    return changes.replace("; ", "\n")


def _format_instances(instance_diffs: Sequence[InstanceDiff]) -> str:
    if not instance_diffs:
        return "\nLive instances: none\n"
    parts = ["\nLive instances:\n"]
    for instance_diff in instance_diffs:
        head = f"{instance_diff.name} (updatePolicy {instance_diff.policy})"
        if instance_diff.problems:
            parts.append(f"  {head}: the new template fails\n")
            parts.append(text_layout.indent("\n".join(instance_diff.problems), "    "))
        elif not instance_diff.lines:
            parts.append(f"  {head}: {instance_diff.note or 'nothing changes'}\n")
        else:
            parts.append(f"  {head}:\n")
            parts.append(text_layout.indent("\n".join(instance_diff.lines), "    "))
            parts.append(f"    ({instance_diff.note})\n" if instance_diff.note else "")
    return "".join(parts)
