"""Validate sent facts: rights, limits, secrets, and defaults for scope, source and confidence."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kais import facts as kais_facts
from knowledge_client.models import AliasIn, FactIn, ProblemViolation, Ref, Run, ScopeRef, Source
from knowledge_service.domain import aliases, facts, redaction
from knowledge_service.domain.access_control import realm_of
from knowledge_service.domain.fact_fields import STORED_FIELDS
from knowledge_service.domain.fact_text import FactText
from knowledge_service.domain.facts import NewFact
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import InvalidBody, SecretRefused, TooLarge
from knowledge_service.search.text import batch_analysis
from knowledge_service.search.text.batch_analysis import AnalysedBatch
from knowledge_service.use_cases import authorization, fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import Store


def prepare_fact(store: Store, principal: Principal, body: FactIn) -> NewFact:
    """Validate one fact, and complete its scope, source and confidence.

    Raises:
        ScopeForbidden, Forbidden, ScopeReadOnly: the caller may not write there.
        NotFound: the run does not exist or is not accessible.
        InvalidBody, TooLarge: the fact exceeds a limit.
    """
    return prepare_facts(store, principal, [body])[0]


def prepare_facts(
    store: Store,
    principal: Principal,
    bodies: Sequence[FactIn],
    analyse: Callable[[Sequence[FactText]], AnalysedBatch] = batch_analysis.analyse_batch,
) -> list[NewFact]:
    """Validate the facts of one call, sharing lookups and the analysis of their texts.

    A fact is validated on its own if its text may contain a secret or a prompt injection, or if it
    has other fields than its text.

    Raises:
        The errors of `prepare_fact`, for the first invalid fact.
    """
    preparer = _FactPreparer(store, principal)
    texts = [facts.text_of(body) for body in bodies]
    if len(bodies) == 1 or not any(texts):
        return [preparer.prepare(body) for body in bodies]
    preparer.prefetch_scope_settings({body.scope for body in bodies})
    analysed = analyse([text for text in texts if text])
    results = zip(analysed.hashes, analysed.terms, strict=True)
    prepared: list[NewFact] = []
    for body, text in zip(bodies, texts, strict=True):
        content_hash, terms = next(results) if text else (None, b"")
        if content_hash is None:
            prepared.append(preparer.prepare(body))
        else:
            template = preparer.template_for_scope(body.scope)
            new_fact = facts.from_text(body, template, content_hash=content_hash, terms=terms)
            prepared.append(new_fact)
    return prepared


class _FactPreparer:
    """Validates facts of one call, and remembers what they have in common."""

    def __init__(self, store: Store, principal: Principal) -> None:
        self._store = store
        self._principal = principal
        self._paths: dict[ScopeRef | None, str] = {}
        self._sources: dict[tuple[Source | None, str | None, str], Source] = {}
        self._templates: dict[ScopeRef | None, NewFact] = {}

    def prepare(self, body: FactIn) -> NewFact:
        """Validate a fact."""
        scope = self._writable_path(body.scope)
        source = self._complete_source(body.source, body.run, scope)
        if body.about and aliases.is_alias(body.about):
            about_fact = fact_queries.get_visible_fact(self._store, self._principal, body.about)
            body = body.model_copy(update={"about": about_fact.id})
        confidence = kais_facts.DEFAULT_CONFIDENCE if body.confidence is None else body.confidence
        reject_violations(facts.violations(body))
        fact = facts.new_fact(body, scope=scope, source=source, confidence=confidence)
        if _is_masked(fact, body, source):
            reject_violations(fact.violations)
            reject_secrets(self._store, scope)
        reject_secret_aliases(body.aliases)
        return fact

    def template_for_scope(self, scope: ScopeRef | None) -> NewFact:
        """Return the fact that a plain text in a scope becomes, with a placeholder as its text."""
        template = self._templates.get(scope)
        if template is None:
            similar_template = next(iter(self._templates.values()), None)
            if similar_template is None:
                template = self.prepare(FactIn(content="x", scope=scope))
            else:
                template = dataclasses.replace(similar_template, scope=self._writable_path(scope))
            self._templates[scope] = template
        return template

    def prefetch_scope_settings(self, scopes: Collection[ScopeRef | None]) -> None:
        """Read the settings of many scopes at once; rights are checked later."""
        if len(scopes) > 1:
            with suppress(InvalidBody):
                paths = [
                    authorization.canonical_path(scope, self._principal)
                    for scope in scopes
                    if scope
                ]
                self._store.scope_configs(paths)

    def _writable_path(self, scope: ScopeRef | None) -> str:
        if scope not in self._paths:
            self._paths[scope] = authorization.authorize_write(
                self._store, scope, self._principal, "remember"
            )
        return self._paths[scope]

    def _complete_source(
        self, sent_source: Source | None, run_id: str | None, scope: str
    ) -> Source:
        key = (sent_source, run_id, realm_of(scope) if run_id else "")
        if key not in self._sources:
            run = None
            if run_id:
                run = authorization.authorized_run(
                    self._store, run_id, self._principal, nearby_scope=scope
                )
            self._sources[key] = _with_references(sent_source, run, self._principal)
        return self._sources[key]


# All fields with a mask except the tags, which masking may also merge.
MASKED_FIELDS = [each for each in STORED_FIELDS if each.mask and each.name != "tags"]
_sent_values = operator.attrgetter(*(each.attribute for each in MASKED_FIELDS))
_stored_values = operator.attrgetter(*(each.name for each in MASKED_FIELDS))


def _is_masked(fact: NewFact, body: FactIn, source: Source) -> bool:
    sent, stored = _sent_values(body), _stored_values(fact)
    if sent != stored and any(map(_differs, sent, stored)):
        return True
    return source != fact.source or (_has_mask(fact.tags) and not _has_mask(body.tags))


def is_revision_masked(new: NewFact, changes: Mapping[str, Any]) -> bool:
    """Return whether a gate masked a secret in the changes of a revision."""
    masked = {each.name for each in MASKED_FIELDS}
    if any(name in masked and _differs(sent, getattr(new, name)) for name, sent in changes.items()):
        return True
    return _has_mask(new.tags) and not _has_mask(changes.get("tags", new.tags))


def _differs(sent: Any, stored: Any) -> bool:
    """Compare a value with the stored one; an empty text is stored as none."""
    return bool(sent != stored and (sent or stored))


def _has_mask(tags: Sequence[str]) -> bool:
    return any(redaction.MASK in tag for tag in tags)


def reject_secret_aliases(aliases_in: Sequence[AliasIn]) -> None:
    """Reject secrets in aliases everywhere: a masked alias could never be looked up."""
    for alias in aliases_in:
        name = alias.value or alias.prefix or ""
        if redaction.mask_known_formats(name) != name:
            raise SecretRefused(
                f"a name of the fact in {alias.namespace!r} looks like a secret;"
                " aliases are stored unmasked; choose another"
            )


def _with_references(sent_source: Source | None, run: Run | None, principal: Principal) -> Source:
    """Complete a source; the caller sends its type and references, never its actor or author."""
    kind = "explicit_remember" if principal.type == "agent" else "user_input"
    if sent_source is None and run is None:
        return _source_without_refs(kind, principal.name, principal.author)
    source = sent_source or Source(type=kind)
    legacy_ids = (("mission", source.mission_id), ("experiment", source.experiment_id))
    legacy_refs = tuple(Ref(type=t, id=i) for t, i in legacy_ids if i)
    refs = refs_to_run(run) if run else ()
    if not (refs or source.refs or legacy_refs):
        return _source_without_refs(source.type, principal.name, principal.author)
    refs = facts.merge_refs(facts.merge_refs(refs, source.refs), legacy_refs)
    return Source(type=source.type, refs=refs, actor=principal.name, author=principal.author)


@functools.lru_cache(maxsize=4096)
def _source_without_refs(kind: Any, actor: str, author: str | None) -> Source:
    return Source(type=kind, actor=actor, author=author)


def reject_secrets(store: Store, scope: str, text: str | None = None) -> None:
    """Reject a secret in a scope that refuses secrets; without `text`, the secret was masked.

    Raises:
        SecretRefused: the scope refuses secrets, and there is one.
    """
    if text is not None and redaction.mask(text) == text:
        return
    config = store.scope_configs([scope]).get(scope)
    if config and config.secrets == "Refuse":
        raise SecretRefused(
            f"scope {scope} refuses text that looks like a secret;"
            " store where the secret is kept, not the secret itself"
        )


def reject_violations(violation_texts: Sequence[str]) -> None:
    """Reject a fact that exceeds limits.

    Raises:
        TooLarge: the data is too large.
        InvalidBody: with all other violations.
    """
    if any(violation.startswith("data has") for violation in violation_texts):
        raise TooLarge("; ".join(violation_texts))
    if violation_texts:
        parts = [text.partition(" ") for text in violation_texts]
        problem_violations = tuple(
            ProblemViolation(path=path, message=message) for path, _, message in parts
        )
        raise InvalidBody("the fact breaks limits", problem_violations)


def refs_to_run(run: Run) -> tuple[Ref, ...]:
    """Return the references of a fact from a run: its mission, if any, and the run."""
    mission = Ref(type="mission", id=f"{run.namespace}/{run.mission}") if run.mission else None
    run_ref = Ref(type="run", id=run.run_id)
    return (mission, run_ref) if mission else (run_ref,)
