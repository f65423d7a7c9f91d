"""Compiles Blueprints when they change, and renders them for instances.

A rendering checks every parameter, renders the template and validates the result as the API server
would, so that nothing invalid is written. It runs templates and regular expressions of users: run
it in a process that can be killed. Input and output are plain JSON, or convert to it with
`to_dict`.
"""

import copy
import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kais import names, parameter_rules, rendered_validation, secret_references, templates
from kais import parameters as rules
from kais.errors import InvalidResource, Violation
from kais.reasons import Reason
from kais.resources.blueprint import RESERVED_NAMES, TemplateSpec
from kais.templates import Budget, Progress, TemplateFailed, nodes

_SAMPLE = "sample"  # what blueprint, instance and namespace are called while compiling


@dataclass(frozen=True)
class CompileReport:
    """Whether a template may serve.

    Attributes:
        is_good: Whether instances may be created from it.
        reason: Compiled, NotSampled or TemplateError.
        message: The message of the condition, with all errors.
        errors: Each error with the JSON path of its leaf and, inside it, line and column.
    """

    is_good: bool
    reason: Reason
    message: str
    errors: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**vars(self), "reason": self.reason.value, "errors": list(self.errors)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CompileReport":
        """Read what `to_dict` returned."""
        return cls(
            is_good=data["is_good"],
            reason=_reason(data["reason"]),
            message=data["message"],
            errors=tuple(data["errors"]),
        )


@dataclass(frozen=True)
class Rendered:
    """A valid rendering.

    Attributes:
        formation_spec: Valid spec of the Formation, in the API's spelling.
        mission_spec: Valid spec of the Mission with its formationRef, None without a mission.
        values: The parameters' values, defaults included; a secretRef stays a reference.
        parameters_hash: Hash of the values.
    """

    formation_spec: dict[str, Any]
    mission_spec: dict[str, Any] | None
    values: dict[str, Any]
    parameters_hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON that `read_rendering` reads."""
        return {"rendered": dict(vars(self))}


@dataclass(frozen=True)
class Violations:
    """Why nothing may be written: all violations.

    Attributes:
        reason: ParametersInvalid, UnknownParameter or RenderFailed.
        violations: Each names the parameter or the leaf.
    """

    reason: Reason
    violations: tuple[str, ...]

    @property
    def message(self) -> str:
        """All violations in one text."""
        return "; ".join(self.violations)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON that `read_rendering` reads."""
        return {"reason": self.reason.value, "violations": list(self.violations)}


Rendering = Rendered | Violations


def read_rendering(data: Mapping[str, Any]) -> Rendering:
    """Read what a rendering's `to_dict` gave."""
    if "rendered" in data:
        return Rendered(**data["rendered"])
    return Violations(_reason(data["reason"]), tuple(data["violations"]))


def compile_blueprint(
    spec: Mapping[str, Any], *, progress: Progress | None = None
) -> CompileReport:
    """Check a blueprint's spec: every leaf parses, no name is undeclared, and a sample is valid.

    Samples are rendered with the defaults and with the examples. `progress` is called with each
    parameter before its pattern runs, and with the path of each leaf before it is parsed or
    evaluated.
    """
    try:
        template = TemplateSpec.from_dict(spec)
    except InvalidResource as exc:
        return _failed_report([str(violation) for violation in exc.violations])
    progress = progress or _no_progress
    errors = [str(v) for v in rules.declaration_violations(template.parameters, progress=progress)]
    errors += _template_errors(template, progress)
    if errors:
        return _failed_report(errors)
    samples = rules.samples(template.parameters)
    if samples.missing:
        listed = ", ".join(f"'{name}'" for name in samples.missing)
        return CompileReport(
            is_good=True,
            reason=Reason.NOT_SAMPLED,
            message=f"the template parses; it was not rendered, because {listed} "
            "has neither default nor example",
        )
    prepared = _prepare(template)
    for values in samples.values:
        rendering = _render(
            prepared, values, _SAMPLE, _scope(_SAMPLE, 1, _SAMPLE, _SAMPLE), progress
        )
        if isinstance(rendering, Violations):
            return _failed_report([f"{v}{_described(values)}" for v in rendering.violations])
    return CompileReport(
        is_good=True,
        reason=Reason.COMPILED,
        message="the template renders with its defaults and examples",
    )


def render_blueprint(  # noqa: PLR0913 - the names that a template finds in scope
    spec: Mapping[str, Any],
    parameters: Mapping[str, Any],
    *,
    blueprint: str,
    revision: int,
    instance: str,
    namespace: str,
    previous: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Rendering:
    """Render the spec of a blueprint or revision with the parameters of an instance.

    The Formation will have the instance's name. `previous` is what `parameters.immutable_values`
    returned for the same instance.
    """
    try:
        prepared = _cached_preparation(spec)
    except InvalidResource as exc:
        return Violations(Reason.RENDER_FAILED, tuple(str(v) for v in exc.violations))
    template = prepared.template
    progress = progress or _no_progress
    resolved = rules.resolve(template.parameters, parameters, previous=previous, progress=progress)
    if resolved.violations:
        return _parameter_violations(template, resolved.violations)
    scope = _scope(blueprint, revision, instance, namespace)
    return _render(prepared, resolved.values, instance, scope, progress)


@dataclass(frozen=True)
class _Prepared:
    """A template, prepared for many renderings."""

    template: TemplateSpec
    programs: tuple[nodes.Program, ...]


def _cached_preparation(spec: Mapping[str, Any]) -> _Prepared:
    """Return a prepared template, from a cache if the same spec was prepared before."""
    plain_spec: Any = spec
    try:
        key = marshal.dumps(plain_spec, 2)  # the last version that writes equal values equally
    except ValueError:
        key = None  # a mapping that is no dict
    if key is None or len(key) > _MAX_CACHED_BYTES:
        return _prepare(TemplateSpec.from_dict(spec))
    prepared = _CACHE.get(key)
    if prepared is None:
        # Copied, because the caller may change its spec.
        prepared = _prepare(TemplateSpec.from_dict(copy.deepcopy(spec)))
        if len(_CACHE) >= _CACHE_SIZE:
            _CACHE.pop(next(iter(_CACHE)), None)
        _CACHE[key] = prepared
    return prepared


def _prepare(template: TemplateSpec) -> _Prepared:
    trees = _trees(template)
    programs = (nodes.prepare(tree, path=path) for path, tree in trees)
    return _Prepared(template, tuple(programs))


_CACHE_SIZE = 32  # arbitrary: templates in use at the same time
_MAX_CACHED_BYTES = 64 * 1024  # what is kept stays far below the memory that a worker may use
_CACHE: dict[bytes, _Prepared] = {}


def _parameter_violations(template: TemplateSpec, violations: tuple[Violation, ...]) -> Violations:
    declared = {rules.path_of(parameter.name) for parameter in template.parameters}
    only_unknown = all(violation.path not in declared for violation in violations)
    reason = Reason.UNKNOWN_PARAMETER if only_unknown else Reason.PARAMETERS_INVALID
    return Violations(reason, tuple(str(violation) for violation in violations))


def _render(
    prepared: _Prepared,
    values: dict[str, Any],
    instance: str,
    scope: Mapping[str, Any],
    progress: Progress,
) -> Rendering:
    budget, variables = Budget(), {**values, **scope}
    declared = [parameter.name for parameter in prepared.template.parameters]
    trees: dict[str, Any] = {}
    errors: list[str] = []
    for (path, _), program in zip(_trees(prepared.template), prepared.programs, strict=True):
        try:
            trees[path] = program.render(
                variables, declared=declared, budget=budget, progress=progress
            )
        except TemplateFailed as exc:
            errors += [str(error) for error in exc.errors]
            if budget.is_exhausted:
                break
    if errors:
        return Violations(Reason.RENDER_FAILED, tuple(errors))
    checked = rendered_validation.validate_rendered(
        trees["formation"], trees.get("mission"), instance=instance
    )
    broken = checked.violations
    if checked.may_name_secrets:
        broken = secret_references.violations(
            prepared.template, values, rendered=trees["formation"]
        )
    if broken:
        return Violations(Reason.RENDER_FAILED, tuple(str(v) for v in broken))
    return Rendered(
        formation_spec=checked.formation_spec,
        mission_spec=checked.mission_spec,
        values=values,
        parameters_hash=names.spec_hash(values),
    )


def _template_errors(template: TemplateSpec, progress: Progress) -> list[str]:
    declared = {*RESERVED_NAMES, *(parameter.name for parameter in template.parameters)}
    budget = Budget()
    errors = [
        error
        for path, tree in _trees(template)
        for error in templates.check(tree, declared, path=path, budget=budget, progress=progress)
    ]
    return [str(error) for error in errors]


def _no_progress(path: str) -> None:
    del path


def _trees(template: TemplateSpec) -> list[tuple[str, Any]]:
    trees: list[tuple[str, Any]] = [("formation", template.formation)]
    return trees if template.mission is None else [*trees, ("mission", template.mission)]


def _scope(blueprint: str, revision: int, instance: str, namespace: str) -> dict[str, Any]:
    return {
        "blueprint": {"name": blueprint, "revision": revision},
        "instance": {"name": instance, "namespace": namespace},
    }


def _described(values: Mapping[str, Any]) -> str:
    """Return the values of a sample as the end of a message; they need not be the cause."""
    listed = ", ".join(
        f"{name}={parameter_rules.excerpt(value)}"[:60] for name, value in values.items()
    )
    return f" (with {listed[:200]})" if listed else ""


def _failed_report(errors: list[str]) -> CompileReport:
    return CompileReport(
        is_good=False,
        reason=Reason.TEMPLATE_ERROR,
        message="; ".join(errors),
        errors=tuple(errors),
    )


def _reason(value: str) -> Reason:
    return next(reason for reason in Reason if reason.value == value)
