"""Read Blueprints and other objects of kais from files, and report their errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kais import metadata_validation, rendered_validation
from kais.errors import InvalidResource
from kais.resources import kinds
from kais.resources.base import API_GROUP, API_VERSION, Resource
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision, template_of
from kais_cli import argument_parsing, errors
from kais_cli.blueprints import render_requests

if TYPE_CHECKING:
    from kais_cli.session import Session


@dataclass(frozen=True)
class CheckResult:
    """The result of compiling one blueprint of a file, or of checking another object."""

    subject: str
    message: str = ""
    problems: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """Return the problems as text for people."""
        verb = "does not compile" if self.subject.startswith(_BLUEPRINT) else "is invalid"
        return f"{self.subject} {verb}:" + "".join(f"\n  {problem}" for problem in self.problems)


_BLUEPRINT = "Blueprint"
_FIELDS_ARE_VALID = "its fields are valid; the cluster decides about references and permissions"

_SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
_STANDARD_INPUT = "standard input"
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class Source:
    """A text with manifests, and where it came from."""

    name: str
    text: str


def sources(
    session: Session, arguments: Sequence[str], *, recursive: bool | None = None
) -> Iterator[Source]:
    """Read files, the files of folders in the order of their names, and standard input for `-`.

    Files of a folder without an object of kais are skipped. `recursive` also reads the folders
    inside a folder, as in kubectl; None if the command has no such option.

    Raises:
        UsageError: A file cannot be read, or a folder has no object of kais.
    """
    for argument in arguments:
        if argument == STDIN:
            text = argument_parsing.read_text(session, argument) or ""
            yield Source(_STANDARD_INPUT, text)
        elif Path(argument).is_dir():
            yield from _in_folder(Path(argument), recursive=recursive)
        else:
            yield Source(argument, render_requests.read_text(Path(argument), subject=argument))


def _in_folder(folder: Path, *, recursive: bool | None) -> Iterator[Source]:
    has_object = False
    for path in _files(folder, recursive=bool(recursive)):
        source = Source(str(path), render_requests.read_text(path, subject=str(path)))
        if _may_hold_object(source):
            has_object = True
            yield source
    if not has_object:
        advice = ""
        if recursive is False and any(_files(folder, recursive=True)):
            advice = "; add -R to read the folders inside it"
        raise errors.UsageError(
            f"{folder} holds no file with an object of kais; its files end in"
            f" {', '.join(_SUFFIXES)}{advice}"
        )


def _files(folder: Path, *, recursive: bool) -> Iterator[Path]:
    """Yield the files that may have objects; links to folders are not followed."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(folders) if recursive else []
        for name in sorted(files):
            path = Path(parent, name)
            if path.suffix in _SUFFIXES and path.is_file():
                yield path


def _may_hold_object(source: Source) -> bool:
    """Return whether a file has an object of kais, or cannot be read and may have one."""
    try:
        return any(_is_of_kais(document) for document in _documents(source))
    except errors.UsageError:
        return True


def validate(source: Source) -> Iterator[CheckResult]:
    """Compile each Blueprint of a source, and check the fields of its other objects of kais.

    Raises:
        UsageError: It is not YAML, or holds no object of kais.
    """
    bodies = [(i, body) for i, body in enumerate(_documents(source)) if _is_of_kais(body)]
    if not bodies:
        raise errors.UsageError(f"{source.name} holds no object of kais")
    for document, body in bodies:
        yield _check(source, document, body)


def _check(source: Source, document: int, body: Mapping[str, Any]) -> CheckResult:
    """Check one object; `document` is its number in the source."""
    subject = f"{body.get('kind')} {_name_of(body) or '(without a name)'} in {source.name}"
    resource, problems = _read(body)
    located = _located(problems, source, document, root="")
    message = _FIELDS_ARE_VALID
    if isinstance(resource, Blueprint):
        report = render_requests.compile_spec(resource.spec.to_dict(), subject=subject)
        message = report.message
        template_errors = () if report.is_good else (report.errors or (report.message,))
        located += _located(template_errors, source, document, root="spec.")
    return CheckResult(subject, message=message, problems=located)


def _name_of(body: Mapping[str, Any]) -> str | None:
    metadata = body.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _read(body: Mapping[str, Any]) -> tuple[Resource | None, list[str]]:
    """Read an object; return it, or None, and its problems, such as unknown fields."""
    resource, problems = None, []
    try:
        resource = kinds.read(body)
    except InvalidResource as exc:
        problems = [str(violation) for violation in exc.violations]
    problems += map(str, metadata_validation.violations(body.get("metadata")))
    if body.get("apiVersion") != API_VERSION:
        problems.insert(0, f"apiVersion: must be {API_VERSION}")
    kind = kinds.BY_NAME.get(str(body.get("kind")))
    if kind is not None:
        unknown = rendered_validation.unknown_fields(kind, _without_api_fields(body), "")
        problems = [*map(str, unknown), *problems]
    return resource, problems


_API_METADATA = ("generateName", "managedFields", "selfLink", "deletionGracePeriodSeconds")
"""Fields of any object's metadata that the models of kais leave out."""


def _without_api_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(body)
    return {**body, "metadata": {k: v for k, v in metadata.items() if k not in _API_METADATA}}


_PATH = re.compile(r"(?:^|: )([a-z]\w*[.\[][^\s:,]*|[a-z]\w*(?=: ))")
_PARAMETER = re.compile(r"^parameter '([^']*)'")
_ITEM = re.compile(r"^([a-z]\w*): ([a-z]\w*\[\d+\]): ")  # an item that the owner of a list refuses


def _located(
    problems: Sequence[str], source: Source, document: int, *, root: str
) -> tuple[str, ...]:
    """Prefix each problem with file and line; `root` is the path that its path starts from."""
    if not problems:
        return ()
    paths = [root + _path_of(problem) for problem in problems]
    lines = render_requests.yaml_lines(source.text, paths, document=document, subject=source.name)
    return tuple(
        f"{source.name}:{line}: {problem}" for line, problem in zip(lines, problems, strict=True)
    )


def _path_of(problem: str) -> str:
    """Return the path that a message begins with; empty if it names none."""
    if parameter := _PARAMETER.match(problem):
        return f"parameters[name={parameter[1]}]"
    if item := _ITEM.match(problem):
        return f"{item[1]}.{item[2]}"
    path = _PATH.search(problem)
    return path[1] if path else ""


def read_revision(session: Session, file: str, name: str | None) -> BlueprintRevision:
    """Return the template of a file as the first revision of its Blueprint.

    The file may be a folder, or `-` for standard input. `name` chooses among several Blueprints.
    The namespace is that of the command or of the file, otherwise `default`.

    Raises:
        UsageError: The file cannot be read, has no such Blueprint, or one that does not compile;
            with each problem and its line.
    """
    blueprints = [
        (source, document, body)
        for source in sources(session, [file])
        for document, body in enumerate(_documents(source))
        if _is_blueprint(body)
    ]
    names = ", ".join(str(_name_of(body)) for *_, body in blueprints)
    place = _STANDARD_INPUT if file == STDIN else file
    if not blueprints:
        raise errors.UsageError(f"{place} holds no object of kind Blueprint")
    if name is not None:
        blueprints = [each for each in blueprints if _name_of(each[2]) == name]
    if not blueprints:
        raise errors.UsageError(f"{place} has no Blueprint {name}; it has {names}")
    if len(blueprints) > 1:
        raise errors.UsageError(f"{place} has {len(blueprints)} Blueprints: {names}; name one")
    result = _check(*blueprints[0])
    if result.problems:
        raise errors.UsageError(result.error)
    blueprint = Blueprint.from_dict(blueprints[0][2])
    namespace = session.chosen_namespace or blueprint.metadata.namespace or _DEFAULT_NAMESPACE
    metadata = {"name": blueprint.metadata.name, "namespace": namespace}
    spec = template_of(blueprint.spec) | {"blueprint": blueprint.metadata.name, "revision": 1}
    return BlueprintRevision.from_dict({"metadata": metadata, "spec": spec})


def load(file: Path, name: str) -> Blueprint:
    """Read the Blueprint of that name, or the only one of the file.

    Raises:
        UsageError: the file cannot be read, or has no such Blueprint.
        InvalidResource: it is not valid; with every violation.
    """
    manifests = load_all(file)
    matches = [body for body in manifests if body.get("metadata", {}).get("name") == name]
    if not matches:
        names = ", ".join(str(body.get("metadata", {}).get("name")) for body in manifests)
        raise errors.UsageError(f"{file} has no Blueprint {name}; it has {names}")
    return Blueprint.from_dict(matches[0])


def load_all(file: Path) -> list[dict[str, Any]]:
    """Read the documents of a file that are Blueprints.

    Raises:
        UsageError: the file cannot be read, or holds no Blueprint.
    """
    source = Source(str(file), render_requests.read_text(file, subject=str(file)))
    manifests = _blueprints(source)
    if not manifests:
        raise errors.UsageError(f"{file} holds no object of kind Blueprint")
    return manifests


def _blueprints(source: Source) -> list[dict[str, Any]]:
    return [body for body in _documents(source) if _is_blueprint(body)]


def _documents(source: Source) -> list[Any]:
    return render_requests.parse_yaml(source.text, subject=source.name)


def _is_blueprint(document: Any) -> bool:
    return isinstance(document, dict) and document.get("kind") == _BLUEPRINT


def _is_of_kais(document: Any) -> bool:
    """Return whether a document has a kind of kais, or its API group with a misspelled kind."""
    if not isinstance(document, dict):
        return False
    group = str(document.get("apiVersion")).partition("/")[0]
    return document.get("kind") in kinds.BY_NAME or group == API_GROUP
