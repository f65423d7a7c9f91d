"""Shares of a Formation's budget: what one cell of a template may cost of it.

`budget.allocation` names shares of templates in per cent, which all cells of the template have
together. The minds of other templates share the rest equally. The sum is never above the budget.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from kais.resources.formation import FormationSpec

_PERCENT = re.compile(r"^[0-9]{1,3}(\.[0-9]{1,6})?%$")
_FULL_PERCENT = Decimal(100)


def share(spec: FormationSpec, template: str | None, amount: Decimal) -> Decimal:
    """Return what one cell of a template may cost of an amount; equal shares by default."""
    minds = {cell.name: cell.replicas for cell in spec.cells if cell.spec.mind is not None}
    allocation = _allocation(spec) if not problems(spec) else {}
    if template in allocation:
        replicas = next(cell.replicas for cell in spec.cells if cell.name == template)
        return amount * allocation[template] / _FULL_PERCENT / max(1, replicas)
    unallocated_count = sum(count for name, count in minds.items() if name not in allocation)
    rest = _FULL_PERCENT - sum(allocation.values())
    return amount * rest / _FULL_PERCENT / max(1, unallocated_count)


def problems(spec: FormationSpec) -> tuple[str, ...]:
    """Return what is wrong with the allocation; then it has no effect, and shares are equal."""
    declared = (spec.budget.allocation if spec.budget is not None else None) or {}
    templates = {template.name for template in spec.cells}
    messages = [
        f'budget.allocation: "{name}" is not a cell of this formation'
        for name in declared
        if name not in templates
    ]
    messages += [
        f'budget.allocation.{name}: "{text}" is no share such as 40%'
        for name, text in declared.items()
        if _PERCENT.match(text) is None
    ]
    total = sum(_allocation(spec).values())
    if not messages and total > _FULL_PERCENT:
        messages.append(f"budget.allocation: the shares add up to {total:f}%, more than 100%")
    return tuple(messages)


def _allocation(spec: FormationSpec) -> dict[str, Decimal]:
    declared = (spec.budget.allocation if spec.budget is not None else None) or {}
    try:
        return {name: Decimal(text.removesuffix("%")) for name, text in declared.items()}
    except InvalidOperation:
        return {}
