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


def prepare(store: Store, principal: Principal, body: FactIn) -> NewFact:
    """Check rights and limits, and settle scope, source and confidence.

    Raises:
        ScopeForbidden, Forbidden, ScopeReadOnly: the caller may not write there.
        NotFound: the run is not one that the caller works in.
        InvalidBody, TooLarge: a limit is passed.
    """
    return prepare_all(store, principal, [body])[0]


def prepare_all(
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
    desk = _Desk(store, principal)
    texts = [facts.text_of(body) for body in bodies]
    if len(bodies) == 1 or not any(texts):
        return [desk.prepared(body) for body in bodies]
    desk.expect({body.scope for body in bodies})
    analysed = analyse([text for text in texts if text])
    results = zip(analysed.hashes, analysed.terms, strict=True)
    prepared: list[NewFact] = []
    for body, text in zip(bodies, texts, strict=True):
        content_hash, terms = next(results) if text else (None, b"")
        if content_hash is None:
            prepared.append(desk.prepared(body))
        else:
            template = desk.template(body.scope)
            new = facts.from_text(body, template, content_hash=content_hash, terms=terms)
            prepared.append(new)
    return prepared


class _Desk:
    """What the facts of one call have in common."""

    def __init__(self, store: Store, principal: Principal) -> None:
        self._store = store
        self._principal = principal
        self._paths: dict[ScopeRef | None, str] = {}
        self._sources: dict[tuple[Source | None, str | None, str], Source] = {}
        self._templates: dict[ScopeRef | None, NewFact] = {}

    def prepared(self, body: FactIn) -> NewFact:
        """Prepare a fact."""
        scope = self._path(body.scope)
        source = self._source(body.source, body.run, scope)
        if body.about and aliases.is_alias(body.about):
            about = fact_queries.get_visible_fact(self._store, self._principal, body.about)
            body = body.model_copy(update={"about": about.id})
        confidence = kais_facts.DEFAULT_CONFIDENCE if body.confidence is None else body.confidence
        refuse_beyond_limits(facts.violations(body))
        fact = facts.new_fact(body, scope=scope, source=source, confidence=confidence)
        if _is_masked(fact, body, source):
            refuse_beyond_limits(fact.violations)
            refuse_secrets(self._store, scope)
        _refuse_secret_names(body)
        return fact

    def template(self, scope: ScopeRef | None) -> NewFact:
        """Return a fact that is as any text for a scope, but for the text."""
        template = self._templates.get(scope)
        if template is None:
            other = next(iter(self._templates.values()), None)
            if other is None:
                template = self.prepared(FactIn(content="x", scope=scope))
            else:
                template = dataclasses.replace(other, scope=self._path(scope))
            self._templates[scope] = template
        return template

    def expect(self, scopes: Collection[ScopeRef | None]) -> None:
        """Have settings of many scopes read at once; who may not write there learns it later."""
        if len(scopes) > 1:
            with suppress(InvalidBody):
                paths = [authorization.path_of(each, self._principal) for each in scopes if each]
                self._store.scope_configs(paths)

    def _path(self, scope: ScopeRef | None) -> str:
        if scope not in self._paths:
            self._paths[scope] = authorization.writable(self._store, scope, self._principal)
        return self._paths[scope]

    def _source(self, given: Source | None, run_id: str | None, scope: str) -> Source:
        key = (given, run_id, realm_of(scope) if run_id else "")
        if key not in self._sources:
            run = None
            if run_id:
                run = authorization.run_of(self._store, run_id, self._principal, near=scope)
            self._sources[key] = _source(given, run, self._principal)
        return self._sources[key]


def _is_masked(fact: NewFact, body: FactIn, source: Source) -> bool:
    names = (body.title or None, body.subject or None, body.predicate or None)
    told = (body.content, *names, body.data)
    kept = (fact.content, fact.title, fact.subject, fact.predicate, fact.data)
    if told != kept or (body.schema_, body.about, source) != (fact.schema, fact.about, fact.source):
        return True
    return _has_mask(fact.tags) and not _has_mask(body.tags)


def _has_mask(tags: Sequence[str]) -> bool:
    return any(redaction.MASK in tag for tag in tags)


def _refuse_secret_names(body: FactIn) -> None:
    """Let pass names that are none: a masked one would find nothing, so it is refused anywhere."""
    for alias in body.aliases:
        name = alias.value or alias.prefix or ""
        if redaction.mask_known_formats(name) != name:
            raise SecretRefused(
                f"a name of the fact in {alias.namespace!r} looks like a secret;"
                " names are kept as they are, give another"
            )


def _source(given: Source | None, run: Run | None, principal: Principal) -> Source:
    """Take the caller's word for the type and other references, never for the actor."""
    kind = "explicit_remember" if principal.type == "agent" else "user_input"
    if given is None and run is None:
        return _bare_source(kind, principal.name)
    source = given or Source(type=kind)
    named = (("mission", source.mission_id), ("experiment", source.experiment_id))
    others = tuple(Ref(type=t, id=i) for t, i in named if i)
    refs = run_refs(run) if run else ()
    if not (refs or source.refs or others):
        return _bare_source(source.type, principal.name)
    refs = facts.merge_refs(facts.merge_refs(refs, source.refs), others)
    return Source(type=source.type, refs=refs, actor=principal.name)


@functools.lru_cache(maxsize=4096)
def _bare_source(kind: Any, actor: str) -> Source:
    return Source(type=kind, actor=actor)


def refuse_secrets(store: Store, scope: str, text: str | None = None) -> None:
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


def refuse_beyond_limits(found: Sequence[str]) -> None:
    """Let pass what breaks no limit.

    Raises:
        TooLarge: the data is too large.
        InvalidBody: anything else, all violations at once.
    """
    if any(violation.startswith("data has") for violation in found):
        raise TooLarge("; ".join(found))
    if found:
        parts = [text.partition(" ") for text in found]
        violations = tuple(ProblemViolation(path=path, message=said) for path, _, said in parts)
        raise InvalidBody("the fact breaks limits", violations)


def run_refs(run: Run) -> tuple[Ref, ...]:
    """Return what a fact from a run points to: its mission, when it has one, and the run."""
    mission = Ref(type="mission", id=f"{run.namespace}/{run.mission}") if run.mission else None
    own = Ref(type="run", id=run.run_id)
    return (mission, own) if mission else (own,)
