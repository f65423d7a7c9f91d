import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import templates
from kais.templates import TemplateFailed, limits, nodes

VALUES = {
    "n": 3,
    "price": 2.5,
    "yes": True,
    "text": "007",
    "roles": ["lead", "worker"],
    "cfg": {"items": "mine", "k": "v"},
    "big": "x" * 1000,
}
JSON = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def render(tree, values=None, **options):
    return templates.render(tree, VALUES if values is None else values, path="formation", **options)


def failure(tree, values=None):
    with pytest.raises(TemplateFailed) as caught:
        render(tree, values)
    return str(caught.value)


def problem(leaf):
    (leaf_error,) = templates.check({"a": leaf}, VALUES, path="formation")
    return str(leaf_error)


@given(JSON)
def test_whole_expression_keeps_the_value_and_its_type(value):
    assert templates.render({"a": "{{ v }}"}, {"v": value}) == {"a": value}


@given(st.text(max_size=60))
def test_text_of_a_value_is_never_read_again(value):
    rendered = templates.render({"a": "<{{ v }}>", "b": ["{{ v }}"]}, {"v": value})
    assert rendered == {"a": f"<{value}>", "b": [value]}


@pytest.mark.parametrize(
    "value",
    [
        "007",
        "1.10",
        "1e5",
        "true",
        "null",
        "~",
        "a: b",
        "- a",
        "--- ",
        "&x",
        "*x",
        "{{ n }}",
        "ä\n\nö",
    ],
)
def test_text_that_looks_like_something_else_stays_text(value):
    tree = {"a": "{{ v }}", "b": "{{ v }}!", "c": {"$if": "v is string", "d": "{{ v }}"}}
    assert templates.render(tree, {"v": value}) == {"a": value, "b": value + "!", "c": {"d": value}}


@pytest.mark.parametrize(
    ("leaf", "value"),
    [
        pytest.param("{{ n }}", 3, id="an integer"),
        pytest.param("{{ price * 2 }}", 5.0, id="a number that was computed"),
        pytest.param("{{ yes and n > 2 }}", True, id="a boolean"),
        pytest.param("{{- n -}}", 3, id="white space control changes nothing"),
        pytest.param(" {{ n }}", " 3", id="a space before it makes text"),
        pytest.param("{{ n }}\n", "3\n", id="a line end after it makes text"),
        pytest.param("{{ n }}{{ n }}", "33", id="two expressions are text"),
        pytest.param("{% if n > 3 %}many{% elif n == 3 %}three{% endif %}", "three", id="if"),
        pytest.param("{{ 'big' if n > 3 else 'small' }}", "small", id="inline if"),
        pytest.param(
            "{% for r in roles %}{{ loop.index }}{{ r }} {% endfor %}", "1lead 2worker ", id="for"
        ),
        pytest.param("{{ roles | map('upper') }}", ["LEAD", "WORKER"], id="a generator is a list"),
        pytest.param("{{ range(3) }}", [0, 1, 2], id="a range is a list"),
        pytest.param("{{ (1, 2) }}", [1, 2], id="a tuple is a list"),
        pytest.param("{{ cfg.items }}", "mine", id="a key comes before a method"),
        pytest.param("{{ cfg.keys() }}", ["items", "k"], id="a method on the list"),
        pytest.param("{{ cfg.none | default('d') }}", "d", id="default"),
        pytest.param("{{ text ~ n }}", "0073", id="tilde joins text"),
        pytest.param("{{ roles | join(', ') }}", "lead, worker", id="join"),
        pytest.param("{{ cfg | tojson }}", '{"items": "mine", "k": "v"}', id="tojson"),
        pytest.param("{{ 'a-b' | replace('-', '+') }}", "a+b", id="replace"),
        pytest.param("a\n{{ 'b\nc' | indent(2) }}", "a\nb\n  c", id="indent"),
        pytest.param("$(CELL_NAME) $$(X) ${X} {} %", "$(CELL_NAME) $$(X) ${X} {} %", id="no mark"),
        pytest.param("{% raw %}{{ n }}{% endraw %}", "{{ n }}", id="raw"),
    ],
)
def test_leaf_gives(leaf, value):
    rendered = render({"a": leaf})["a"]
    assert rendered == value
    assert type(rendered) is type(value)


def test_keys_are_rendered_as_text():
    assert render({"{{ n }}": 1, "k{{ n }}": 2}) == {"3": 1, "k3": 2}
    assert failure({"{{ n }}": 1, "3": 2}) == "formation.3: the key '3' is a duplicate"


def test_if_keeps_or_drops_a_node():
    tree = {
        "list": [{"$if": "n > 5", "a": 1}, {"$if": "{{ n < 5 }}", "b": 2}, "c"],
        "kept": {"$if": True, "d": 3},
        "gone": {"$if": "not yes", "e": "{{ 1 / 0 }}"},
    }
    assert render(tree) == {"list": [{"b": 2}, "c"], "kept": {"d": 3}}


def test_for_repeats_a_node_and_splices_in_a_list():
    tree = {
        "cells": [
            "first",
            {"$for": {"item": "r", "in": "roles"}, "name": "{{ r }}", "n": "{{ n }}"},
            {"$for": {"item": "i", "in": "{{ range(2) }}"}, "$if": "i > 0", "i": "{{ i }}"},
        ],
        "value": {"$for": {"item": "x", "in": [1, "{{ text }}"]}, "x": "{{ x }}"},
    }
    assert render(tree) == {
        "cells": ["first", {"name": "lead", "n": 3}, {"name": "worker", "n": 3}, {"i": 1}],
        "value": [{"x": 1}, {"x": "007"}],
    }


def test_loops_nest():
    inner = {"$for": {"item": "b", "in": "a"}, "v": "{{ b }}"}
    tree = [{"$for": {"item": "a", "in": "rows"}, "row": [inner]}]
    assert render(tree, {"rows": [[1, 2], [3]]}) == [
        {"row": [{"v": 1}, {"v": 2}]},
        {"row": [{"v": 3}]},
    ]


def test_what_has_no_value_is_left_out():
    assert render({"a": "{{ none }}", "b": ["{{ none }}", 1], "c": None}) == {"b": [1]}


def test_declared_names_may_be_undefined():
    tree = {"a": "{{ 'set' if opt is defined else 'unset' }}"}
    assert render(tree, {}, declared=["opt"]) == {"a": "unset"}


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("hi {{ rolse }}", "line 1, column 7: 'rolse' is not declared; did you mean 'roles'?"),
        ("a\n  {{ zzz }}", "line 2, column 6: 'zzz' is not declared; declared: big, cfg, n,"),
        ("{{ n | uper }}", "there is no filter 'uper'; did you mean 'upper'?"),
        ("{{ n is huge }}", "there is no test 'huge'; "),
        ("{{ n + }}", "line 1, column 8: unexpected 'end of print statement'"),
        ("x\n{{ n ", "line 2, column 1: the expression that begins here is not closed"),
        ("{{ n ? }}", "line 1, column 6: unexpected char '?'"),
        ("{% if n %}", "line 1, column 9: Unexpected end of template"),
        ("{% macro f() %}{% endmacro %}", "line 1, column 4: 'macro' is not part of the template"),
        ("{% include 'x' %}", "line 1, column 4: 'include' is not part of the template language"),
        (
            "{% import 'x' as y %}",
            "line 1, column 4: 'import' is not part of the template language",
        ),
        ("{% set x %}y{% endset %}", "line 1, column 4: 'set without =' is not part of"),
        ("{{ self }}", "line 1, column 4: 'self' is not part of the template language"),
        ("{{ loop }}", "line 1, column 4: 'loop' is not declared"),
        ("{{ " + "(" * 500 + "1" + ")" * 500 + " }}", "is nested too deeply"),
        ("{{ 1 }}" * 10_000, "is longer than 65,536 characters"),
    ],
)
def test_leaf_does_not_compile(leaf, message):
    assert problem(leaf).startswith(("formation.a, ", "formation.a: "))
    assert message in problem(leaf)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        pytest.param(
            {"$if": "n"}, "formation: a directive must be an item of a list", id="at root"
        ),
        pytest.param([{"$if": 3}], "formation[0].$if: must be an expression", id="no expression"),
        pytest.param([{"$if": "{{n}} x"}], "formation[0].$if: must be one expression", id="text"),
        pytest.param([{"$for": "x"}], "must be {item: name, in: expression}", id="no mapping"),
        pytest.param([{"$for": {"item": "x"}}], "must be {item: name, in:", id="without in"),
        pytest.param(
            [{"$for": {"item": "1", "in": "roles"}}], "$for.item: must be a name", id="name"
        ),
        pytest.param([{"$for": {"item": "n", "in": "roles"}}], "'n' is already in use", id="taken"),
        pytest.param(
            [{"$for": {"item": "x", "in": 3}}], "must be an expression or a list", id="in"
        ),
        pytest.param(
            [{"$for": {"item": "x", "in": "rols"}}], "did you mean 'roles'?", id="unknown"
        ),
        pytest.param([{"a": ["{{ x }}"]}], "formation[0].a[0], line 1, column 4", id="path"),
        pytest.param(
            {"a": {"$if": "n", "$then": 1}}, "formation.a.$then: does not exist", id="then"
        ),
        pytest.param([{"$if": "n", "$else": 1}], "formation[0].$else: does not exist", id="else"),
        pytest.param({"{{ zz }}": 1}, "formation.{{ zz }}, line 1, column 4: 'zz'", id="key"),
    ],
)
def test_tree_does_not_compile(tree, message):
    leaf_errors = templates.check(tree, VALUES, path="formation")
    assert message in str(leaf_errors[0])


def test_every_wrong_leaf_is_reported():
    tree = {"a": "{{ x }}", "b": ["{{ n }}", "{{ y }} {{ z }}"], "c": {"d": "{{ n | q }}"}}
    paths = [error.path for error in templates.check(tree, VALUES)]
    assert paths == ["a", "b[1]", "b[1]", "c.d"]
    with pytest.raises(TemplateFailed) as caught:
        render({"a": "{{ 1 / 0 }}", "b": "{{ cfg.missing }}", "c": "{{ n }}"})
    assert [error.path for error in caught.value.errors] == ["formation.a", "formation.b"]


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("a\n{{ 1 / 0 }}", "line 2, column 4: division by zero"),
        ("{{ cfg.missing }}", "line 1, column 7: 'dict object' has no attribute 'missing'"),
        ("x{{ none }}", "line 1, column 5: there is no value to write"),
        ("{{ range }}", "line 1, column 4: gives a function, which is not a value"),
        ("{{ n + 'a' }}", "unsupported operand type"),
        ("{{ roles[9] }}", "line 1, column 9: list object has no element 9"),
    ],
)
def test_leaf_fails_at_its_place(leaf, message):
    assert message in failure({"a": leaf})


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ text.__init__.__globals__ }}",
    "{{ cfg['__class__'] }}",
    "{{ roles | map(attribute='__class__') | list }}",
    "{{ range.__globals__ }}",
    "{{ roles.append('x') }}",
    "{{ cfg.update({'a': 1}) }}",
    "{{ cfg.pop('k') }}",
    "{{ text.format(n) }}",
    "{{ '{0.__class__}'.format(n) }}",
    "{{ text.encode() }}",
    "{{ n.real }}",
    "{% for r in roles %}{{ loop.__class__ }}{% endfor %}",
    "{{ cfg.items.__self__ }}",
    "{{ roles | map('attr', '__class__') | list }}",
    "{{ cfg.keys.__func__ }}",
]


@pytest.mark.parametrize("leaf", ESCAPES)
def test_escape_is_refused_with_the_leafs_name(leaf):
    assert failure({"a": leaf}).startswith("formation.a")


BOMBS = [
    "{{ 'a' * 1000000000 }}",
    "{{ 1000000000 * 'a' }}",
    "{{ [0] * 1000000000 }}",
    "{{ [[0] * 10000] * 10000 }}",
    "{{ '%01000000000d' % 1 }}",
    "{{ 'x'.ljust(10 ** 9) }}",
    "{{ 'x'.rjust(10 ** 9) }}",
    "{{ 'x'.zfill(10 ** 9) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 10 ** 400 }}",
    "{{ range(1000000000) }}",
    "{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}",
    "{% for a in range(900) %}{{ big }}{% endfor %}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }} text",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a | tojson }} text",
    "{{ roles | join(',' * 200000) | replace(',', 'yyyyyyyyyy') }}",
    "{{ 'abc' | replace('', big) | replace('x', big) }}",
    "{{ big | indent(1000000000) }}",
]


@pytest.mark.parametrize("leaf", BOMBS)
def test_bomb_is_an_error_that_names_the_leaf_at_once(leaf):
    start = time.thread_time()
    assert failure({"a": leaf}).startswith("formation.a")
    assert time.thread_time() - start < 5, "the slowest takes 0.3 s"


@pytest.mark.parametrize("leaf", ["{{ 'x' | center(500000000) }}", "{{ '%d' | format(1) }}"])
def test_filter_that_can_multiply_is_not_on_the_list(leaf):
    assert "there is no filter" in problem(leaf)


def test_loop_steps_are_counted_over_the_whole_rendering():
    many = list(range(600))
    tree = [{"$for": {"item": "x", "in": "many"}, "x": 1}, "{% for y in many %}{% endfor %}"]
    message = "formation[1]: loops take more than 1,000 steps together"
    assert failure(tree, {"many": many}) == message


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("{{ 'a' ~ '\\ud800' }}", "a text has half a surrogate pair; write the character itself"),
        ("{% set x = '\\udfff' %}", "a text has half a surrogate pair"),
        ("{{ {'\\ud800': 1} }}", "a text has half a surrogate pair"),
        ("{{ 1e999 }}", "the number is too large"),
        ("{{ [-1e999] }}", "the number is too large"),
    ],
)
def test_a_constant_that_json_cannot_hold_is_refused(leaf, message):
    assert message in problem(leaf)


def test_output_is_bounded_over_the_whole_rendering():
    tree = [{"$for": {"item": "x", "in": "range(300)"}, "x": "{{ big }}"}]
    assert "the output is larger than 256 KiB" in failure(tree)
    assert "the output has more than 10,000 nodes" in failure([[1] * 10_001])


def test_deep_tree_is_refused():
    tree = "{{ n }}"
    for _ in range(limits.DEPTH + 2):
        tree = [tree]
    assert "is nested too deeply" in failure(tree)
    assert "is nested too deeply" in str(templates.check(tree, VALUES)[0])


def test_who_runs_it_is_told_each_leaf_before_it_is_evaluated():
    observed = []
    with pytest.raises(TemplateFailed):
        render({"a": "{{ n }}", "b": ["{{ 1 / 0 }}"], "c": "plain"}, progress=observed.append)
    assert observed == ["formation.a", "formation.b[0]"]


@given(st.text(alphabet="{}%# nr'\"|.()[]+*~-0", max_size=30))
def test_any_leaf_is_rendered_or_refused_by_name(leaf):
    errors = templates.check({"a": leaf}, VALUES)
    if errors:
        assert all(error.path == "a" for error in errors)
        return
    try:
        templates.render({"a": leaf}, VALUES)
    except TemplateFailed as exc:
        paths = [error.path for error in exc.errors]
        assert paths == ["a"]


def test_a_cap_that_constant_parts_pass_is_told_at_its_place():
    large = ["x" * 200_000]
    assert failure({"a": large, "b": {"c": large}}) == (
        "formation.b.c[0]: the output is larger than 256 KiB"
    )


def test_a_program_renders_the_same_each_time_and_for_each_scope():
    tree = {"a": {"b": [1, "x", None]}, "c": "{{ v }}", "$if": "{{ false }}"}
    program = nodes.prepare([{"$for": {"item": "i", "in": "v"}, "d": "{{ i }}"}, tree])
    assert program.render({"v": ["1"]}) == [{"d": "1"}]
    assert program.render({"v": [2, 3]}) == [{"d": 2}, {"d": 3}]
    assert program.render({"v": []}) == []


@pytest.mark.parametrize("leaf", ["{{ v.__class__ }}", "{{ v.b.__init__ }}", "{{ v.b.mro }}"])
def test_a_lone_member_obeys_the_sandbox(leaf):
    with pytest.raises(templates.TemplateFailed, match=r"is not for templates|has no"):
        templates.render({"a": leaf}, {"v": {"b": "x"}})


def test_a_lone_member_gives_its_value():
    assert templates.render({"a": "{{ v.b.c }}"}, {"v": {"b": {"c": [1]}}}) == {"a": [1]}
