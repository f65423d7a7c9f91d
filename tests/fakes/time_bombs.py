"""Expressions of few characters that would run for seconds, years or until all memory is gone.

Powers and rounding, sums and sorts, chains of filters, comparisons and hashes of values that share
members, methods and slices in loops. The names in scope are those of `hostile`.
"""

from __future__ import annotations

_SHARED = "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
_KEYS = "{% set a = (1,) %}" + "{% set a = (a, a) %}" * 40
_DEEP = "{% set a = {'a': 1} %}" + "{% set a = {'a': a} %}" * 500


def _often(body: str) -> str:
    return "{% for i in range(1000) %}" + body + "{% endfor %}"


POWERS: tuple[str, ...] = (
    "{{ 1.5|round(99999999, 'ceil') }}",
    "{{ 12345|round(-99999999) }}",
    "{{ 12345|round(99999999, 'floor') }}",
    "{{ [0]|round(9, 'ceil') }}",
    "{{ [1, 2]|map('round', 99999999, 'ceil')|list }}",
    "{{ '%0999999999d' is divisibleby(1) }}",
    "{{ '%0999999999d' is odd }}",
    "{{ ['%0999999999d']|select('even')|list }}",
    "{{ ('f' * 250000)|int(0, 16) // 3 }}",
    "{{ 0x" + "f" * 40000 + " // 3 }}",
    "{{ 1e308|int }}",
    _often("{% set x = ('7' * 4000)|int * 3 // 7 %}"),
)
SUMS: tuple[str, ...] = (
    "{{ ([[0]*10000]*10000)|sum(start=[]) }}",
    "{{ ([[0] * 1000] * 9)|sum(start=[]) }}" * 1200,
    "{{ [l * 3000, l * 3000, l * 3000]|sum(start=[]) }}",
    "{{ (['x' * 1000] * 1000)|sum(start='') }}",
    "{{ ([{'a': [0] * 9000}] * 9000)|sum('a', []) }}",
    _often("{% set x = ([1] * 10000)|sum %}"),
)
SORTS: tuple[str, ...] = (
    "{{ ('ba' * 130000)|list|sort|length }}",
    _often("{% set x = ('ba' * 4000)|sort %}"),
    _often("{% set x = ([2, 1] * 5000)|sort(reverse=true) %}"),
    _often("{% set x = ('ba' * 100000)|unique %}"),
    _often("{% set x = ([2, 1] * 5000)|min %}"),
    _often("{% set x = {'a': 1, 'b': [1] * 10000}|dictsort %}"),
    _often("{% set x = ([1] * 10000)|reverse|list %}"),
)
CHAINS: tuple[str, ...] = (
    "{{ ([[1]] * 10000)" + "|map('first')|map('string')|map('list')" * 25 + "|list|length }}",
    "{{ ([o] * 10000)" + "|map(attribute='a')|map('default', o)" * 40 + "|list }}",
    "{{ (range(1000)|list * 10)" + "|select('number')" * 60 + "|list|length }}",
    _often("{% set x = ('aB' * 9000)" + "|upper|lower|title" * 25 + " %}"),
    _often("{% set x = ('a' * 9000)|list" + "|reverse|list" * 35 + " %}"),
    _often(("{% set x = s" + "|upper|trim" * 30 + " %}") * 60),
    _DEEP + "{{ ([a] * 10000)|map(attribute='" + "a." * 499 + "a')|list|length }}",
)
SHARED: tuple[str, ...] = (
    _SHARED + "{{ a == b }}",
    _SHARED + "{{ a < b }}",
    _SHARED + "{{ a in [b] }}",
    _SHARED + "{{ a is eq(b) }}",
    _SHARED + "{{ [b]|select('in', [a])|list }}",
    _SHARED + "{{ [a, b]|sort|first|first }}",
    _SHARED + "{{ [a, b]|max|first }}",
    _SHARED + "{{ a|upper }}",
    _SHARED + "{{ a|title|length }}",
    _SHARED + "{{ o[a] }}",
    _KEYS + "{{ {a: 1}|length }}",
    _KEYS + "{{ o.get(a, 1) }}",
    _KEYS + "{{ o[a] }}",
    _KEYS + "{{ [a]|unique|length }}",
    _KEYS + "{{ l|map(a)|list }}",
)
METHODS: tuple[str, ...] = (
    "{{ ('a' * 250000).strip('b' * 200000 ~ 'a') }}",
    "{{ ('a' * 250000)|trim('b' * 200000 ~ 'a') }}",
    _often("{% set x = ('a ' * 100000).split() %}"),
    _often("{% set x = ('a' * 200000)[::-1] %}" * 100),
    _often("{% set x = ([0] * 9000)[1:] %}" * 100),
    _often("{% set x = ([0] * 9000) + [1] %}" * 100),
    _often("{% if ('a' * 120000 ~ 'b') in ('a' * 250000) %}{% endif %}"),
    _often(("{% set x = " + "n + " * 150 + "n %}") * 12),
    _often("{% set x = (range(1000)|list)" + "[1:]" * 90 + " %}"),
)
PARSING: tuple[str, ...] = (
    "{{ " + " + ".join(f"a{i}" for i in range(9000)) + " }}",
    "{{ " + "+".join("1" for _ in range(30000)) + " }}",
    "{{ [" + ",".join("1" for _ in range(30000)) + "]|length }}",
    "{{ 1 }}" * 9000,
)
TIME_BOMBS = (*POWERS, *SUMS, *SORTS, *CHAINS, *SHARED, *METHODS, *PARSING)
"""Each must be refused by an error that names its leaf, by what the sandbox counts alone."""
