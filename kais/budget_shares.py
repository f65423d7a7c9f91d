"""Shares of a Formation's budget: what one cell of a template may cost of it.

`budget.allocation` names shares of templates in per cent, which all cells of the template have
together. The minds of other templates share the rest equally. The sum is never above the budget.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from kais.resources.formation import FormationSpec

_PERCENT = re.compile(r"^[0-9]{1,3}(\.[0-9]{1,6})?%$")
_WHOLE = Decimal(100)


def share(spec: FormationSpec, template: str | None, amount: Decimal) -> Decimal:
    """Return what one cell of a template may cost of an amount; equal shares by default."""
    minds = {each.name: each.replicas for each in spec.cells if each.spec.mind is not None}
    allocation = _allocation(spec) if not problems(spec) else {}
    if template in allocation:
        replicas = next(each.replicas for each in spec.cells if each.name == template)
        return amount * allocation[template] / _WHOLE / max(1, replicas)
    others = sum(count for name, count in minds.items() if name not in allocation)
    rest = _WHOLE - sum(allocation.values())
    return amount * rest / _WHOLE / max(1, others)


def problems(spec: FormationSpec) -> tuple[str, ...]:
    """Return what is wrong with the allocation; then it has no effect, and shares are equal."""
    written = (spec.budget.allocation if spec.budget is not None else None) or {}
    templates = {template.name for template in spec.cells}
    messages = [
        f'budget.allocation: "{name}" is not a cell of this formation'
        for name in written
        if name not in templates
    ]
    messages += [
        f'budget.allocation.{name}: "{text}" is no share such as 40%'
        for name, text in written.items()
        if _PERCENT.match(text) is None
    ]
    total = sum(_allocation(spec).values())
    if not messages and total > _WHOLE:
        messages.append(f"budget.allocation: the shares add up to {total:f}%, more than 100%")
    return tuple(messages)


def _allocation(spec: FormationSpec) -> dict[str, Decimal]:
    written = (spec.budget.allocation if spec.budget is not None else None) or {}
    try:
        return {name: Decimal(text.removesuffix("%")) for name, text in written.items()}
    except InvalidOperation:
        return {}
