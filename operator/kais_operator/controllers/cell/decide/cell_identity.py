"""Where a cell stands: its short name, its account, its scope, and the settings that hold there.

A Cell, its pods and its Mission must come to the same answers, so all of them ask here.
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
    """A Cell with the Formation that it names; None when it names none or that is missing."""

    cell: Cell
    formation: Formation | None


@dataclass(frozen=True)
class CellIdentity:
    """Who a cell is to the others.

    Attributes:
        short_name: its address inside its formation, or its name when it stands alone.
        account: the ServiceAccount that its pods run under.
        scope: what that account is at home in.
        workspace: the volume claim that its formation shares, None without one.
    """

    short_name: str
    account: str
    scope: Scope
    workspace: str | None = None


def short_name(cell: Cell) -> str:
    """Give a cell's address inside its formation: `lead-0`, even when its own name was cut."""
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
    """Name the ServiceAccount of a cell's pods: the borrowed one, else its own."""
    return cell.spec.service_account_name or cell.metadata.name


def formation_segment(formation: Formation) -> str:
    """Name a formation in scope paths: as its spec says, else its Blueprint, else itself."""
    declared_scope = formation.spec.knowledge.scope if formation.spec.knowledge else None
    return segment(
        declared_scope or formation.metadata.labels.get(labels.BLUEPRINT) or formation.metadata.name
    )


def segment(name: str) -> str:
    """Give a name as it may stand in a scope.

    References and labels hold what no object is called; a run that they lead nowhere is still told.
    """
    return name if scopes.is_segment(name) else names.cut(name)


def formation_scope(formation: Formation) -> Scope:
    """Give the scope that all uses of one Blueprint in a realm share by default."""
    return Scope(formation.metadata.namespace, formation_segment(formation))


def own_scope(housed: CellInFormation) -> Scope:
    """Give the scope that is the cell's alone."""
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
    """Say who a cell is; `sharing` are scopes of others under the same account.

    A token names the account, not the cell, so cells that share one are at home in what all of
    them see.
    """
    own_home = own_scope(housed)
    home = scopes.nearest_common([own_home, *sharing])
    claim = workspace_claim(housed.formation)
    return CellIdentity(short_name(housed.cell), account_name(housed.cell), home, claim)


def workspace_claim(formation: Formation | None) -> str | None:
    """Name the volume claim that a formation's cells share; None when it declares none."""
    if formation is None or formation.spec.workspace is None:
        return None
    return names.workspace_claim_name(formation.metadata.name)


def principal(
    cell: Cell, cell_identity: CellIdentity, *, account_uid: str, realm_uid: str
) -> models.PrincipalIn:
    """Make the registration of a cell's account: it reads and writes at home, nothing else."""
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
    """Give the scope that a KnowledgeScope describes; its realm is its namespace."""
    spec = declared.spec
    if spec.level is Level.PLATFORM:
        return scopes.PLATFORM
    return Scope(declared.metadata.namespace, spec.formation, spec.cell)


def settings_for(
    scope: Scope, declared: Sequence[KnowledgeScope], *, scope_ref: str | None = None
) -> KnowledgeScope | None:
    """Find the KnowledgeScope whose settings hold for a scope: the one `named`, else the nearest.

    Of two that describe one scope, the older counts. None when nobody declared anything.
    """
    if scope_ref is not None:
        return next((d for d in declared if d.metadata.name == scope_ref), None)
    by_path: dict[Scope, KnowledgeScope] = {}
    for candidate in sorted(declared, key=age_key):
        by_path.setdefault(scope_path(candidate), candidate)
    return next((by_path[s] for s in scopes.visible_from(scope) if s in by_path), None)


def age_key(declared: KnowledgeScope) -> tuple[str, str]:
    """Order KnowledgeScopes by age, those of one second by name."""
    created = declared.metadata.creation_timestamp
    return (created.isoformat() if created else "", declared.metadata.name)
