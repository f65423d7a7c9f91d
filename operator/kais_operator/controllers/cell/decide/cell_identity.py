"""The identity of a cell: its short name, account, scope, and the settings for that scope.

The controllers of Cell and Mission and the builders of pods must come to the same results, so all
use these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kais import labels, names, scopes
from kais.resources.cell import Cell
from kais.resources.formation import MAX_REPLICAS, Formation
from kais.resources.knowledge_scope import KnowledgeScope
from kais.scopes import Level, Scope
from knowledge_client import models


@dataclass(frozen=True)
class CellInFormation:
    """A Cell with its Formation; None when it names no Formation, or that one is missing."""

    cell: Cell
    formation: Formation | None


@dataclass(frozen=True)
class CellIdentity:
    """The identity of a cell as others see it.

    Attributes:
        short_name: its address inside its formation, or its name without a formation.
        account: the ServiceAccount of its pods.
        scope: the home scope of that account.
        workspace: the volume claim of its formation's workspace; None without one.
    """

    short_name: str
    account: str
    scope: Scope
    workspace: str | None = None


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

    References and labels may hold text that is no valid name of an object; a run with such a
    reference is still recorded.
    """
    return name if scopes.is_segment(name) else names.cut(name)


def formation_scope(formation: Formation) -> Scope:
    """Return a formation's scope; by default all instances of one Blueprint in a realm share it."""
    return Scope(formation.metadata.namespace, formation_segment(formation))


def own_scope(housed: CellInFormation) -> Scope:
    """Return the scope of the cell alone."""
    cell = housed.cell
    realm = cell.metadata.namespace
    if cell.spec.formation_ref is None:
        return Scope(realm, None, cell.metadata.name)
    formation = (
        formation_segment(housed.formation)
        if housed.formation is not None
        else segment(cell.spec.formation_ref)
    )
    return Scope(realm, formation, segment(short_name(cell)))


def identity(housed: CellInFormation, *, sharing: Iterable[Scope]) -> CellIdentity:
    """Return the identity of a cell; `sharing` are the scopes of others under the same account.

    A token identifies the account and not the cell. Cells that share an account therefore have the
    nearest scope that all of them see as their home.
    """
    own_home = own_scope(housed)
    home = scopes.nearest_common([own_home, *sharing])
    claim = workspace_claim(housed.formation)
    return CellIdentity(short_name(housed.cell), account_name(housed.cell), home, claim)


def workspace_claim(formation: Formation | None) -> str | None:
    """Return the volume claim that a formation's cells share; None without a workspace."""
    if formation is None or formation.spec.workspace is None:
        return None
    return names.workspace_claim_name(formation.metadata.name)


def principal(
    cell: Cell, cell_identity: CellIdentity, *, account_uid: str, realm_uid: str
) -> models.PrincipalIn:
    """Build the registration of a cell's account, which may only read and write its home scope."""
    namespace = cell.metadata.namespace
    home = str(cell_identity.scope)
    return models.PrincipalIn(
        name=f"{namespace}/{cell_identity.account}",
        type="agent",
        subject=models.Subject(
            username=f"system:serviceaccount:{namespace}:{cell_identity.account}", uid=account_uid
        ),
        home=home,
        grants=(models.Grant(scope=home, verbs=("read", "write")),),
        realm_uid=realm_uid,
    )


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
