import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import scopes
from kais.scopes import InvalidScope, Scope

SEGMENTS = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
SCOPES = st.one_of(
    st.just(Scope()),
    st.builds(Scope, SEGMENTS),
    st.builds(Scope, SEGMENTS, SEGMENTS),
    st.builds(Scope, SEGMENTS, SEGMENTS, SEGMENTS),
    st.builds(lambda realm, cell: Scope(realm, None, cell), SEGMENTS, SEGMENTS),
)
LEAD = Scope("demo", "review-team", "lead-0")


@given(SCOPES)
def test_path_reads_back_as_the_scope(scope):
    assert Scope.parse(str(scope)) == scope


@given(SCOPES)
def test_wire_object_reads_back_as_the_scope(scope):
    assert scopes.from_wire(scope.to_wire()) == scope


@given(SCOPES, SCOPES)
def test_only_what_lies_on_the_own_path_is_visible(reader, other):
    on_path = str(other) == "platform" or f"{reader}/".startswith(f"{other}/")
    assert scopes.is_visible(other, reader=reader) == on_path


@given(SCOPES, SCOPES)
def test_no_two_scopes_are_above_each_other(first, second):
    assert not (scopes.is_ancestor(first, second) and scopes.is_ancestor(second, first))


@given(st.lists(SCOPES, min_size=1, max_size=4))
def test_nearest_common_scope_is_seen_by_all(readers):
    common = scopes.nearest_common(readers)
    assert all(scopes.is_visible(common, reader=reader) for reader in readers)


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_is_refused_in_words(text):
    try:
        read = str(Scope.parse(text))
    except InvalidScope:
        return
    assert read == text


def test_reader_sees_its_own_scope_first_and_the_platform_last():
    assert [str(scope) for scope in scopes.visible_from(LEAD)] == [
        "realm:demo/formation:review-team/cell:lead-0",
        "realm:demo/formation:review-team",
        "realm:demo",
        "platform",
    ]


def test_cell_outside_a_formation_stands_below_its_realm():
    solo = Scope.parse("realm:demo/cell:solo")
    assert solo.level is scopes.Level.CELL
    assert solo.parent == Scope("demo")


def test_cells_of_one_team_share_its_formation():
    other_scope = Scope("demo", "review-team", "worker-1")
    assert scopes.nearest_common([LEAD, other_scope]) == Scope("demo", "review-team")
    assert scopes.nearest_common([]) == scopes.PLATFORM


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("", id="nothing"),
        pytest.param("realm:", id="a realm without a name"),
        pytest.param("formation:x", id="a formation without its realm"),
        pytest.param("realm:a/realm:b", id="two realms"),
        pytest.param("realm:a/cell:c/formation:f", id="the wrong order"),
        pytest.param("platform/realm:a", id="the platform with more"),
        pytest.param("realm:A", id="capitals"),
        pytest.param("realm:a/formation:../b", id="dots that climb"),
        pytest.param("realm:a/", id="a slash at the end"),
        pytest.param("realm:" + "a" * 254, id="a name that is too long"),
    ],
)
def test_path_is_refused(path):
    with pytest.raises(InvalidScope):
        Scope.parse(path)


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        pytest.param({"level": "formation"}, "realm:demo/formation:review-team", id="own ids"),
        pytest.param({"level": "realm"}, "realm:demo", id="a wider level drops ids"),
        pytest.param({"level": "platform", "realmId": "x"}, "platform", id="platform has no ids"),
        pytest.param(
            {"level": "formation", "realmId": "demo", "formationId": "other"},
            "realm:demo/formation:other",
            id="camelCase is read too",
        ),
        pytest.param(
            {"level": "cell", "cell_id": "lead-1"},
            "realm:demo/formation:review-team/cell:lead-1",
            id="a given id wins",
        ),
        pytest.param("realm:demo", "realm:demo", id="a path"),
    ],
)
def test_missing_ids_come_from_the_callers_identity(wire, path):
    assert str(scopes.from_wire(wire, home=LEAD)) == path


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        pytest.param({"level": "galaxy"}, '"galaxy" is not a scope level', id="unknown level"),
        pytest.param({}, "is not a scope level", id="no level"),
        pytest.param(
            {"level": "formation", "realm_id": "other"},
            "a scope of level formation needs formation_id",
            id="the own formation is not another realm's",
        ),
        pytest.param(
            {"level": "cell", "formation_id": "other"},
            "a scope of level cell needs cell_id",
            id="the own cell is not another formation's",
        ),
        pytest.param({"level": "realm", "realm_id": 5}, "must be a string, got 5", id="a number"),
    ],
)
def test_wire_object_is_refused(wire, message):
    with pytest.raises(InvalidScope, match=message):
        scopes.from_wire(wire, home=LEAD)
