"""Templates and patterns that mean harm, as data: what the published advisories on Jinja2 used, and
what makes renderers hang or grow.

In scope: `s` ("pods"), `n` (3), `l` (["a", "b"]), `o` ({"a": {"b": 1}}), `secret` (a reference).
`HARMLESS` looks like an attack and is none; it says what comes out.
"""

from __future__ import annotations

from typing import Any

VALUES: dict[str, Any] = {
    "s": "pods",
    "n": 3,
    "l": ["a", "b"],
    "o": {"a": {"b": 1}},
    "secret": {"name": "login", "key": "password"},
}
PARAMETERS: list[dict[str, Any]] = [
    {"name": "s", "type": "string", "default": VALUES["s"]},
    {"name": "n", "type": "integer", "default": VALUES["n"]},
    {"name": "l", "type": "array", "default": VALUES["l"]},
    {"name": "o", "type": "object", "default": VALUES["o"]},
    {"name": "secret", "type": "secretRef", "default": VALUES["secret"]},
]

ESCAPES: tuple[str, ...] = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ s.__class__.__base__.__subclasses__()[40]('/etc/passwd').read() }}",
    "{{ s['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ s|attr('__class__') }}",
    "{{ s|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "{{ s|attr('for' ~ 'mat') }}",
    "{{ '{0.__class__}'.format(s) }}",
    "{{ '{x.__class__.__mro__}'.format(x=s) }}",
    "{{ '{a.__class__}'.format_map({'a': s}) }}",
    "{{ ('{0.__class__.__init__.__globals__}'|attr('format'))(s) }}",
    "{{ (['{0.__class__}']|map('attr', 'format')|first)(s) }}",
    "{% set f = '{0.__class__}'.format %}{{ f(s) }}",
    "{% for f in ['{0.__class__}'.format] %}{{ f(s) }}{% endfor %}",
    "{{ ['{0.__class__}'.format]|map('string')|list }}",
    "{{ {'f': '{0.__class__}'.format}['f'](s) }}",
    "{{ s|format(s.__class__) }}",
    "{{ {'a onload=alert(1)': 'x'}|xmlattr }}",
    "{{ 'javascript:alert(1)'|urlize }}",
    "{{ s|pprint }}",
    "{{ s|forceescape }}",
    "{{ l|groupby('__class__') }}",
    "{{ l|map(attribute='__class__')|list }}",
    "{{ l|map(attribute='__class__.__mro__')|list }}",
    "{{ l|sum(attribute='__class__') }}",
    "{{ l|sort(attribute='__class__') }}",
    "{{ l|unique(attribute='__class__')|list }}",
    "{{ l|min(attribute='__class__') }}",
    "{{ l|max(attribute='__class__') }}",
    "{{ l|selectattr('__class__')|list }}",
    "{{ l|rejectattr('__class__.__mro__')|list }}",
    "{{ l|join(',', attribute='__class__') }}",
    "{{ l|map('attr', '__class__')|list }}",
    "{{ l|map('map', attribute='__class__')|map('list')|list }}",
    "{{ o|dictsort(by='__class__') }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ config.items() }}",
    "{{ request.application.__globals__ }}",
    "{{ url_for.__globals__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ environment.loader }}",
    "{{ context.environment }}",
    "{{ dict(a=1).__class__ }}",
    "{{ range.__self__ }}",
    "{{ range.__globals__ }}",
    "{{ range.__code__.co_consts }}",
    "{{ (range|string).__class__ }}",
    "{{ range }}",
    "{{ s.upper.__self__ }}",
    "{{ s.upper.__func__.__globals__ }}",
    "{{ s.upper }}",
    "{{ s.encode() }}",
    "{{ s.translate({}) }}",
    "{{ s.maketrans('a', 'b') }}",
    "{{ s.join(l) }}",
    "{{ s.format() }}",
    "{{ n.__class__ }}",
    "{{ n.bit_length() }}",
    "{{ n.to_bytes(2, 'big') }}",
    "{{ 1.5.hex() }}",
    "{{ (1.5).as_integer_ratio() }}",
    "{{ true.__class__ }}",
    "{{ none.__class__ }}",
    "{{ o.__class__ }}",
    "{{ o['__class__']['__mro__'] }}",
    "{{ o.pop('a') }}",
    "{{ o.update({'x': 1}) }}",
    "{{ o.clear() }}",
    "{{ o.setdefault('x', 1) }}",
    "{{ o.popitem() }}",
    "{{ o.items.__self__ }}",
    "{{ o.get.__call__ }}",
    "{{ l.append('x') }}",
    "{{ l.extend(l) }}",
    "{{ l.sort() }}",
    "{{ l.clear() }}",
    "{{ l.__len__() }}",
    "{{ l.copy() }}",
    "{{ (l|map('upper')).gi_frame }}",
    "{{ (l|map('upper')).gi_code }}",
    "{{ (l|select).close() }}",
    "{% for x in l %}{{ loop.__class__ }}{% endfor %}",
    "{% for x in l %}{{ loop._iterator }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle.__globals__ }}{% endfor %}",
    "{% for x in l %}{{ loop.changed.__self__ }}{% endfor %}",
    "{% for x in l %}{{ loop }}{% endfor %}",
    "{% for x in l recursive %}{{ loop(l) }}{% endfor %}",
    "{% import 'os' as os %}{{ os }}",
    "{% from 'os' import popen %}",
    "{% include '/etc/passwd' %}",
    "{% extends '/etc/passwd' %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% call range(3) %}x{% endcall %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{% filter upper %}x{% endfilter %}",
    "{% set x %}{{ s }}{% endset %}",
    "{% set ns = namespace(a=1) %}{{ ns }}",
    "{% set o.x = 1 %}",
    "{% with c = s.__class__ %}{{ c }}{% endwith %}",
    "{% debug %}",
    "{% do l.append(1) %}",
    "{% trans %}x{% endtrans %}",
    "{{ super() }}",
    "{{ caller() }}",
    "{{ varargs }}{{ kwargs }}",
    "{{ secret.password }}",
    "{{ secret.key.__class__ }}",
    "{{ l[0].__class__ }}",
    "{{ l['__class__']|string|attr('x') }}",
    "{{ (l|list)['append'] }}",
    "{{ [].append }}",
    "{{ s is filter('attr') }}",
    "{{ s is sameas(s.__class__) }}",
    "{{ s is callable }}",
    "{{ undefined_name.__class__ }}",
    "{{ undefined_name|default(s.__class__) }}",
    "{{ blueprint.__class__ }}",
    "{{ instance.__init__ }}",
    "{{ 'x'|tojson|attr('__class__') }}",
    "{{ [[[ '{0.__class__}' ]]]|first|first|first|attr('format') }}",
)
"""Each must be refused, by an error that names its leaf."""

BOMBS: tuple[str, ...] = (
    "{{ 'a' * 1000000000 }}",
    "{{ 1000000000 * 'a' }}",
    "{{ 'a' * 1000 * 1000 * 1000 }}",
    "{{ [0] * 1000000000 }}",
    "{{ (1, 2) * 10 ** 9 }}",
    "{{ [[0] * 10000] * 10000 }}",
    "{{ s * 10 ** 9 }}",
    "{{ '%01000000000d' % 1 }}",
    "{{ '%1000000000s' % s }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%01000000000d'|format(1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:>{w}}'.format(1, w=10 ** 9) }}",
    "{{ s|center(5e8) }}",
    "{{ s|center(500000000) }}",
    "{{ s.center(500000000) }}",
    "{{ s.ljust(10 ** 9) }}",
    "{{ s.rjust(10 ** 9) }}",
    "{{ s.zfill(10 ** 9) }}",
    "{{ '\t'.expandtabs(10 ** 9) }}",
    "{{ s|indent(1000000000) }}",
    "{{ s|indent('x' * 200000) }}",
    "{{ s|wordwrap(1) }}",
    "{{ ('a' * 200000)|replace('a', 'bbbbbbbbbb') }}",
    "{{ s|replace('', 'a' * 200000) }}",
    "{{ s.replace('p', 'x' * 200000) }}",
    "{{ l|join('x' * 250000) ~ s|join('y' * 250000) }}",
    "{{ ['x' * 200000, 'y' * 200000]|join }}",
    "{{ ['x' * 200000] * 100 }}",
    "{{ 'x' * 200000 ~ 'y' * 200000 }}",
    "{{ 'x' * 200000 + 'y' * 200000 }}",
    "{{ ('ß' * 200000)|upper }}",
    "{{ '😀' * 100000 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ (9 ** 99) ** 999 }}",
    "{{ 2 ** 10 ** 10 }}",
    "{{ 10 ** 1000000 }}",
    "{{ 2 ** 64 * 2 ** 64 }}",
    "{{ -9 ** 99999 }}",
    "{{ 1e308 * 10 }}",
    "{{ 'inf'|float }}",
    "{{ 'nan'|float }}",
    "{{ 1 / 0 }}",
    "{{ 1 // 0 }}",
    "{{ 1 % 0 }}",
    "{{ range(1000000000) }}",
    "{{ range(-1000000000, 1000000000)|list }}",
    "{{ range(10 ** 18)|sum }}",
    "{{ range(0, 10, 0) }}",
    "{% for a in range(1000000000) %}x{% endfor %}",
    "{% for a in range(1001) %}{% endfor %}",
    "{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}",
    (
        "{% for a in range(40) %}{% for b in range(40) %}{% for c in range(40) %}x{% endfor %}"
        "{% endfor %}{% endfor %}"
    ),
    "{% for c in 'a' * 100000 %}{{ c }}{% endfor %}",
    "{% for a in range(1000) %}{{ 'x' * 10000 }}{% endfor %}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a|tojson }} text",
    "{% set a = [1] %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    "{% set a = {'k': 1} %}" + "{% set a = {'k': a, 'l': a} %}" * 40 + "{{ a }}",
    "{{ range(1000)|map('string')|join('x' * 10000) }}",
    "{{ [range(1000)|list] * 1000 }}",
    "{{ (['x' * 1000] * 1000)|tojson(indent=1000000) }}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "{{ " + "not " * 10000 + "true }}",
    "{{ " + "-" * 20000 + "1 }}",
    "{{ 'x'" + "|upper" * 8000 + " }}",
    "{{ o" + ".a" * 20000 + " }}",
    "{{ o" + "['a']" * 10000 + " }}",
    "{{ " + "1 if true else " * 4000 + "2 }}",
    "{% if true %}" * 3000 + "x" + "{% endif %}" * 3000,
    "{{ '" + "x" * 70000 + "' }}",
    "{{ " + "x" * 70000 + " }}",
    "{{ " * 5000,
    "{% " * 5000,
    "{# " * 5000,
    "{{ 'unclosed }}",
    "{{ s",
    "}}{{",
    "{% for x in l %}",
    "{% endfor %}",
    "{% raw %}{{ s }}",
    "{{ }}",
    "{{ 1 1 }}",
    "{{ \x00 }}",
)
"""Each must be an error that names its leaf, within the limits of time and memory."""

SLOW: tuple[str, ...] = (
    "{% for i in range(1000) %}{% set x = ('aB' * 130000)|upper|lower|title %}{% endfor %}",
    (
        "{% for i in range(1000) %}{% if ('ba' * 100000)|list|sort|unique|list %}{% endif %}"
        "{% endfor %}"
    ),
    (
        "{% for i in range(1000) %}{% set x = (range(1000)|list * 9)|sort|reverse|list %}"
        "{% set y = x|map('string')|map('upper')|join %}{% endfor %}"
    ),
    "{{ " + " + ".join(f"a{i}" for i in range(9000)) + " }}",
    (
        "{% for i in range(900) %}{% if ('a' * 120000 ~ 'b') in ('a' * 250000) %}x{% endif %}"
        "{% set z = ('a' * 250000)|replace('ab', 'c')|title|trim %}{% endfor %}"
    ),
)
"""Small, and long at work: filters and comparisons of large values in loops."""

HARMLESS: tuple[tuple[str, str], ...] = (
    ("{{ '__class__' }}", "__class__"),
    ("{{ o.get('__class__', 'none') }}", "none"),
    ("{{ '{{ s }}' }}", "{{ s }}"),
    ("{% raw %}{{ s.__class__ }}{% endraw %}", "{{ s.__class__ }}"),
    ("{# {{ s.__class__ }} #}text", "text"),
    ("{{ s|truncate(1000000000) }}", "pods"),
    ("{{ 'x' * 3 }}", "xxx"),
    ("{{ 'x' * -1000000000 }}", ""),
    ("{{ '9' * 30 }}", "9" * 30),
    ("{{ 'a\n: b' }}", "a\n: b"),
    ("$(CELL_NAME) ${X} $$(Y)", "$(CELL_NAME) ${X} $$(Y)"),
    ("{{ s|default(n.__class__, true) if false else s }}", "pods"),
)

PATTERNS: tuple[tuple[str, str], ...] = (
    ("(a+)+$", "a" * 40 + "!"),
    ("(a|aa)+$", "a" * 60 + "!"),
    ("(a|a?)+$", "a" * 40 + "!"),
    ("(a*)*b", "a" * 40),
    ("((a*)*)*b", "a" * 40),
    ("(.*)*x", "y" * 40),
    ("([a-zA-Z]+)*1", "a" * 40),
    ("(x+x+)+y", "x" * 40),
    ("(\\w+\\s?)*!", "word " * 20),
    ("a?" * 40 + "a" * 40 + "b", "a" * 41),
    ("(.+)+@(.+)+\\.", "a" * 40),
    ("(?:(?:a|b)*(?:b|c)*)*d", "b" * 40),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
)
"""Patterns that take for ever on their text."""

BAD_PATTERNS: tuple[str, ...] = (
    "(",
    "[a",
    "*",
    "a{2,1}",
    "(?P<n>a)(?P<n>b)",
    "(?<=a+)b",
    "\\",
    "(?P=missing)",
    "a{99999999999999999999}",
    "(" * 500 + ")" * 500,
    "(?i)(?",
)
"""Patterns that are none, or that Python will not compile."""
HUGE_PATTERNS: tuple[str, ...] = (
    "(?:(?:(?:a{1000}){1000}){1000}){1000}",
    "(?:a{0,60000}){0,60000}b",
)
"""Patterns whose compiling or matching could take memory without bound."""


def spec(leaf: Any) -> dict[str, Any]:
    """Give the spec of a Blueprint with that leaf as the argument of its one cell."""
    container = {"image": "worker:1", "args": [leaf]}
    cell = {"name": "worker", "spec": {"mode": "Task", "container": container}}
    return {"parameters": PARAMETERS, "formation": {"cells": [cell]}}


LEAF = "formation.cells[0].spec.container.args[0]"


def trees() -> dict[str, dict[str, Any]]:
    """Give whole formations that grow, nest, or misuse the directives."""
    deep: dict[str, Any] = {"x": 1}
    for _ in range(100):
        deep = {"x": deep}
    deeper: Any = 1
    for _ in range(400):
        deeper = [deeper]

    def loop(over: str, inner: Any, name: str = "a") -> dict[str, Any]:
        return {"$for": {"item": name, "in": over}, "inner": inner}

    nested = loop("range(100)", [loop("range(100)", 1, "b")])
    return {
        "nested 100 deep": deep,
        "lists 400 deep": {"cells": deeper},
        "20,000 nodes": {"cells": [{} for _ in range(20_000)]},
        "a loop of a million": {"cells": [loop("range(1000000)", 1)]},
        "loops in loops": {"cells": [nested]},
        "a loop over nothing that is a list": {"cells": [loop("n", 1)]},
        "a loop without a name": {"cells": [{"$for": {"in": "l"}}]},
        "a loop whose item is a parameter": {"cells": [loop("l", 1, "s")]},
        "a loop whose item is no name": {"cells": [loop("l", 1, "a.b")]},
        "a loop at the root": {"$for": {"item": "x", "in": "l"}, "cells": []},
        "a condition that is a list": {"cells": [{"$if": ["true"]}]},
        "a condition that escapes": {"cells": [{"$if": "s.__class__"}]},
        "a key that escapes": {"cells": [{"{{ s.__class__ }}": 1}]},
        "two keys that become one": {"cells": [{"{{ s }}": 1, "pods": 2}]},
        "a key of 10 MB": {"cells": [{"{{ 'x' * 10000000 }}": 1}]},
        "a loop over parts that are dropped": {
            "cells": [
                {"$for": {"item": "a", "in": "range(1000)"}, "x": [{"$if": False, "y": 1}] * 20_000}
            ]
        },
        "a loop over conditions": {
            "cells": [{"$for": {"item": "a", "in": "range(1000)"}, "x": [{"$if": "n > 3"}] * 3_000}]
        },
        "expressions without number": {
            "cells": [{f"k{i}": f"{{{{ n + {i} }}}}" for i in range(8_000)}]
        },
        "texts without number that do not parse": {
            "cells": [{f"k{i}": "{{ " + "n " * 30_000 for i in range(60)}]
        },
        "10 MB of small leaves": {
            "cells": [{"$for": {"item": "i", "in": "range(1000)"}, "a": "x" * 10_000}]
        },
    }
