"""From a fact as it was sent to one that may be stored: scope, run, source, gates, limits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kais import facts as kais_facts
from knowledge_client.models import FactIn, ProblemViolation, Ref, Run, ScopeRef, Source
from knowledge_service.domain import aliases, facts, redaction
from knowledge_service.domain.access_control import Principal, realm_of
from knowledge_service.domain.facts import FactText, NewFact
from knowledge_service.errors import InvalidBody, SecretRefused, TooLarge
from knowledge_service.search.text import batch_analysis
from knowledge_service.search.text.batch_analysis import Looked
from knowledge_service.use_cases import authorization, fact_queries

if TYPE_CHECKING:
    from knowledge_service.ports import Store


def prepare_fact(store: Store, principal: Principal, body: FactIn) -> NewFact:
    """Check rights and limits, and settle scope, source and confidence.

    Raises:
        ScopeForbidden, Forbidden, ScopeReadOnly: the caller may not write there.
        NotFound: the run is not one that the caller works in.
        InvalidBody, TooLarge: a limit is passed.
    """
    return prepare_facts(store, principal, [body])[0]


def prepare_facts(
    store: Store,
    principal: Principal,
    bodies: Sequence[FactIn],
    analyse: Callable[[Sequence[FactText]], Looked] = batch_analysis.look,
) -> list[NewFact]:
    """Prepare facts of one call; what they have in common is found out once.

    Texts are analysed together. A fact to whose text a gate might object, or that says more than
    text, is prepared alone.

    Raises:
        What `prepare` raises, for the first fact that earns it.
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
    """What the facts of one call have in common."""

    def __init__(self, store: Store, principal: Principal) -> None:
        self._store = store
        self._principal = principal
        self._paths: dict[ScopeRef | None, str] = {}
        self._sources: dict[tuple[Source | None, str | None, str], Source] = {}
        self._templates: dict[ScopeRef | None, NewFact] = {}

    def prepare(self, body: FactIn) -> NewFact:
        """Prepare a fact."""
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
        reject_secret_aliases(body)
        return fact

    def template_for_scope(self, scope: ScopeRef | None) -> NewFact:
        """Return a fact that is as any text for a scope, but for the text."""
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
        """Have settings of many scopes read at once; who may not write there learns it later."""
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
            self._paths[scope] = authorization.authorize_write(self._store, scope, self._principal)
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


def _is_masked(fact: NewFact, body: FactIn, source: Source) -> bool:
    names = (body.title or None, body.subject or None, body.predicate or None)
    sent_texts = (body.content, *names, body.data)
    stored_texts = (fact.content, fact.title, fact.subject, fact.predicate, fact.data)
    if sent_texts != stored_texts or (body.schema_, body.about, source) != (
        fact.schema,
        fact.about,
        fact.source,
    ):
        return True
    return _has_mask(fact.tags) and not _has_mask(body.tags)


def _has_mask(tags: Sequence[str]) -> bool:
    return any(redaction.MASK in tag for tag in tags)


def reject_secret_aliases(body: FactIn) -> None:
    """Let pass names that are none: a masked one would find nothing, so it is refused anywhere."""
    for alias in body.aliases:
        name = alias.value or alias.prefix or ""
        if redaction.mask_known_formats(name) != name:
            raise SecretRefused(
                f"a name of the fact in {alias.namespace!r} looks like a secret;"
                " names are kept as they are, give another"
            )


def _with_references(sent_source: Source | None, run: Run | None, principal: Principal) -> Source:
    """Take the caller's word for the type and other references, never for the actor."""
    kind = "explicit_remember" if principal.type == "agent" else "user_input"
    if sent_source is None and run is None:
        return _source_without_refs(kind, principal.name)
    source = sent_source or Source(type=kind)
    legacy_ids = (("mission", source.mission_id), ("experiment", source.experiment_id))
    legacy_refs = tuple(Ref(type=t, id=i) for t, i in legacy_ids if i)
    refs = refs_to_run(run) if run else ()
    if not (refs or source.refs or legacy_refs):
        return _source_without_refs(source.type, principal.name)
    refs = facts.merge_refs(facts.merge_refs(refs, source.refs), legacy_refs)
    return Source(type=source.type, refs=refs, actor=principal.name)


@functools.lru_cache(maxsize=4096)
def _source_without_refs(kind: Any, actor: str) -> Source:
    return Source(type=kind, actor=actor)


def reject_secrets(store: Store, scope: str, text: str | None = None) -> None:
    """Let pass where secrets are masked; with a text, also one that has none.

    Raises:
        SecretRefused: the scope wants what has secrets refused.
    """
    if text is not None and redaction.mask(text) == text:
        return
    config = store.scope_configs([scope]).get(scope)
    if config and config.secrets == "Refuse":
        raise SecretRefused(
            f"scope {scope} refuses text that looks like a secret, and this does;"
            " say where the secret is kept instead of what it is"
        )


def reject_violations(violation_texts: Sequence[str]) -> None:
    """Let pass what breaks no limit.

    Raises:
        TooLarge: the data is too large.
        InvalidBody: anything else, all violations at once.
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
    """Return what a fact from a run points to: its mission, when it has one, and the run."""
    mission = Ref(type="mission", id=f"{run.namespace}/{run.mission}") if run.mission else None
    run_ref = Ref(type="run", id=run.run_id)
    return (mission, run_ref) if mission else (run_ref,)
