"""The identity of a cell: its short name, account, scope, and the settings for that scope.

The controllers of Cell and Mission and the builders of pods must come to the same results, so all
use these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kais import labels, names, scopes, topology
from kais.resources.cell import Cell
from kais.resources.formation import MAX_REPLICAS, Formation
from kais.resources.knowledge_scope import KnowledgeScope
from kais.scopes import Level, Scope
from kais_operator.planning import memo
from knowledge_client import models


@dataclass(frozen=True)
class CellInFormation:
    """A Cell with its Formation; None when it names no Formation, or that one is missing."""

    cell: Cell
    formation: Formation | None


@memo.by_identity(capacity=64)
def in_formation(cell: Cell, formation: Formation | None) -> CellInFormation:
    """Return the same object for the same two, so that what follows from it is computed once."""
    return CellInFormation(cell, formation)


@dataclass(frozen=True)
class CellIdentity:
    """The identity of a cell as others see it.

    Attributes:
        short_name: its address inside its formation, or its name without a formation.
        account: the ServiceAccount of its pods.
        scope: the home scope of that account.
        memory: the default scope of the facts that it remembers.
        workspace: the volume claim of its formation's workspace; None without one.
        address: its place in the topology of its formation; None without a formation.
    """

    short_name: str
    account: str
    scope: Scope
    memory: Scope
    workspace: str | None = None
    address: models.CellAddress | None = None


def short_name(cell: Cell) -> str:
    """Return a cell's address inside its formation: `lead-0`, even when its name was cut."""
    formation = cell.spec.formation_ref
    template = cell.metadata.labels.get(labels.CELL_TEMPLATE)
    if formation is None or template is None:
        return cell.metadata.name
    plain = cell.metadata.name.removeprefix(f"{formation}-")
    if names.is_dns_label(cell.metadata.name) and _is_replica(plain, template):
        return plain
    for index in range(MAX_REPLICAS):
        if names.cell_name(formation, template, index) == cell.metadata.name:
            return names.short_cell_name(template, index)
    return cell.metadata.name


def _is_replica(short: str, template: str) -> bool:
    name, _, index = short.rpartition("-")
    is_index = index.isascii() and index.isdecimal() and str(int(index)) == index
    return name == template and is_index and int(index) < MAX_REPLICAS


def account_name(cell: Cell) -> str:
    """Return the ServiceAccount of a cell's pods: a borrowed one, else one with the cell's name."""
    return cell.spec.service_account_name or cell.metadata.name


def formation_segment(formation: Formation) -> str:
    """Return a formation's segment of scope paths.

    It is the scope in its spec, else the name of its Blueprint, else its own name.
    """
    declared_scope = formation.spec.knowledge.scope if formation.spec.knowledge else None
    return segment(
        declared_scope or formation.metadata.labels.get(labels.BLUEPRINT) or formation.metadata.name
    )


def segment(name: str) -> str:
    """Convert a name to a valid segment of a scope.

    References and labels may contain text that is not a valid object name; a run with such a
    reference is still recorded.
    """
    return name if scopes.is_segment(name) else names.cut(name)


def formation_scope(formation: Formation) -> Scope:
    """Return a formation's scope; by default all instances of one Blueprint in a realm share it."""
    return Scope(formation.metadata.namespace, formation_segment(formation))


def own_scope(cell_in_formation: CellInFormation) -> Scope:
    """Return the scope of the cell alone."""
    cell = cell_in_formation.cell
    realm = cell.metadata.namespace
    if cell.spec.formation_ref is None:
        return Scope(realm, None, cell.metadata.name)
    formation = (
        formation_segment(cell_in_formation.formation)
        if cell_in_formation.formation is not None
        else segment(cell.spec.formation_ref)
    )
    return Scope(realm, formation, segment(short_name(cell)))


def identity(cell_in_formation: CellInFormation, *, sharing: Iterable[Scope]) -> CellIdentity:
    """Return the identity of a cell; `sharing` are the scopes of others under the same account.

    A token identifies the account and not the cell. Cells that share an account therefore have the
    nearest scope that all of them see as their home. They remember in the scope of their Formation,
    which stays when a cell is renamed.
    """
    others = tuple(sharing)
    return _identity(cell_in_formation, others) if others else _identity_alone(cell_in_formation)


@memo.by_identity(capacity=64)
def _identity_alone(cell_in_formation: CellInFormation) -> CellIdentity:
    return _identity(cell_in_formation, ())


def _identity(cell_in_formation: CellInFormation, sharing: Iterable[Scope]) -> CellIdentity:
    location = _place(cell_in_formation)
    home = scopes.nearest_common([location.scope, *sharing])
    return CellIdentity(
        location.short_name,
        account_name(cell_in_formation.cell),
        home,
        memory=Scope(home.realm, home.formation) if home.formation else home,
        workspace=workspace_claim(cell_in_formation.formation),
        address=location.address,
    )


@dataclass(frozen=True)
class _Place:
    """The part of an identity that depends on a cell and its formation alone."""

    short_name: str
    scope: Scope
    address: models.CellAddress | None


@memo.by_identity(capacity=64)
def _place(cell_in_formation: CellInFormation) -> _Place:
    return _Place(
        short_name(cell_in_formation.cell),
        own_scope(cell_in_formation),
        _address(cell_in_formation),
    )


def workspace_claim(formation: Formation | None) -> str | None:
    """Return the volume claim that a formation's cells share; None without a workspace."""
    if formation is None or formation.spec.workspace is None:
        return None
    return names.workspace_claim_name(formation.metadata.name)


@memo.by_identity(capacity=64)
def principal(
    cell: Cell, cell_identity: CellIdentity, *, account_uid: str, realm_uid: str
) -> models.PrincipalIn:
    """Build the registration of a cell's account.

    It may write in its own scope. In the scope of its Formation, and in any home that it shares
    with others, it remembers and changes only what it wrote itself.
    """
    namespace = cell.metadata.namespace
    home, memory = str(cell_identity.scope), str(cell_identity.memory)
    grants = [models.Grant(scope=memory, verbs=("read", "remember"))]
    if cell_identity.scope.level is Level.CELL:
        home_grant = models.Grant(scope=home, verbs=("read", "write"))
        grants = [home_grant, *grants] if memory != home else [home_grant]
    return models.PrincipalIn(
        name=f"{namespace}/{cell_identity.account}",
        type="agent",
        subject=models.Subject(
            username=f"system:serviceaccount:{namespace}:{cell_identity.account}", uid=account_uid
        ),
        home=home,
        default_scope=memory if memory != home else None,
        grants=tuple(grants),
        realm_uid=realm_uid,
        address=cell_identity.address if cell_identity.scope.level is Level.CELL else None,
    )


def _address(cell_in_formation: CellInFormation) -> models.CellAddress | None:
    """Return the place of a cell in its formation; None without one, or with an invalid topology.

    A template with many replicas is one entry, so that the registration stays small.
    """
    formation = cell_in_formation.formation
    if formation is None or topology.problems(formation.spec):
        return None
    cell = short_name(cell_in_formation.cell)
    routing = topology.routing_of(formation.spec)
    template = topology.template_of(formation.spec, cell)
    if template is None:
        return None
    if routing.rule is topology.RouteRule.RING:
        peers = routing.peers(cell)
    else:
        peers = tuple(f"{target}-*" for target in sorted(routing.target_templates(template)))
    return models.CellAddress(formation=formation.metadata.name, cell=cell, peers=peers)


def scope_path(declared: KnowledgeScope) -> Scope:
    """Return the scope that a KnowledgeScope describes; its realm is its namespace."""
    spec = declared.spec
    if spec.level is Level.PLATFORM:
        return scopes.PLATFORM
    return Scope(declared.metadata.namespace, spec.formation, spec.cell)


def settings_for(
    scope: Scope, declared: Sequence[KnowledgeScope], *, scope_ref: str | None = None
) -> KnowledgeScope | None:
    """Find the KnowledgeScope with the settings of a scope: `scope_ref`, else the nearest one.

    Of two that describe the same scope, the older one applies. None when there is none.
    """
    if scope_ref is not None:
        return next((d for d in declared if d.metadata.name == scope_ref), None)
    by_path: dict[Scope, KnowledgeScope] = {}
    for candidate in sorted(declared, key=age_key):
        by_path.setdefault(scope_path(candidate), candidate)
    return next((by_path[s] for s in scopes.visible_from(scope) if s in by_path), None)


def age_key(declared: KnowledgeScope) -> tuple[str, str]:
    """Return a sort key by age, and by name for KnowledgeScopes of the same second."""
    created = declared.metadata.creation_timestamp
    return (created.isoformat() if created else "", declared.metadata.name)
