from collections.abc import Mapping

import pytest

from kais.conditions import Reason
from kais.resources import blueprint_revision
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint.decide import revision_history
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from tests.fakes import blueprints

GOOD = Verdict(True, Reason.COMPILED, "fine")
BAD = Verdict(False, Reason.TEMPLATE_ERROR, "not fine")

OWN = blueprint_revision.hash_of(Blueprint.from_dict(blueprints.blueprint()).spec)


def revisions(*numbers: int) -> list[BlueprintRevision]:
    return [BlueprintRevision.from_dict(blueprints.revision(n)) for n in numbers]


def head(**annotations: str) -> Blueprint:
    body = blueprints.blueprint()
    body["metadata"]["annotations"] = {
        f"kais.io/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    return Blueprint.from_dict(body)


@pytest.mark.parametrize(
    ("annotations", "kept", "ledger", "number"),
    [
        pytest.param({}, (), None, 1, id="the first of a name nobody knows"),
        pytest.param({}, (1, 2), None, 3, id="one above the highest kept"),
        pytest.param({"last_revision": "7"}, (2,), None, 8, id="one above the annotation"),
        pytest.param({"last_revision": "7"}, (9,), 4, 10, id="one above the highest of all"),
        pytest.param({}, (), 12, 13, id="one above what the ledger remembers"),
        pytest.param(
            {"last_revision": "7", "last_revision_hash": OWN},
            (2,),
            7,
            7,
            id="its own again when it was written down and the revision is missing",
        ),
        pytest.param(
            {"last_revision": "7", "last_revision_hash": "another"},
            (2,),
            7,
            8,
            id="one above the annotation when that was another spec's",
        ),
        pytest.param(
            {"last_revision": "7", "last_revision_hash": OWN},
            (7,),
            7,
            8,
            id="one above when its own was given to another spec",
        ),
        pytest.param(
            {"last_revision": "7", "last_revision_hash": OWN},
            (),
            9,
            10,
            id="one above the ledger when that remembers a higher one",
        ),
        pytest.param({"last_revision": "many"}, (2,), None, 3, id="a mangled annotation is none"),
    ],
)
def test_the_next_number_is(
    annotations: Mapping[str, str], kept: tuple[int, ...], ledger: int | None, number: int
) -> None:
    next_number = revision_history.next_number(head(**annotations), revisions(*kept), ledger=ledger)
    assert next_number == number


@pytest.mark.parametrize(
    ("verdicts", "present", "annotated", "served"),
    [
        pytest.param({3: GOOD}, 3, 2, 3, id="the present one when it is good"),
        pytest.param({3: BAD, 1: GOOD, 2: GOOD}, 3, 1, 1, id="else the one that served last"),
        pytest.param({3: BAD, 1: GOOD, 2: GOOD}, 3, 0, 2, id="else the newest good one"),
        pytest.param({3: BAD, 2: BAD}, 3, 2, None, id="none when none is good"),
    ],
)
def test_what_serves_is(
    verdicts: dict[int, Verdict], present: int, annotated: int, served: int | None
) -> None:
    serving = revision_history.serving(verdicts, present=present, annotated=annotated)
    assert serving == served


@pytest.mark.parametrize(
    ("numbers", "limit", "kept", "dropped"),
    [
        pytest.param((1, 2, 3), 3, (), [], id="nothing within the limit"),
        pytest.param((3, 1, 2, 4), 2, (), [1, 2], id="the oldest beyond it"),
        pytest.param((1, 2, 3, 4), 2, (1, None), [2], id="but not one that is kept"),
    ],
)
def test_what_is_beyond_the_limit(
    numbers: tuple[int, ...], limit: int, kept: tuple[int | None, ...], dropped: list[int]
) -> None:
    beyond_limit = revision_history.beyond_limit(revisions(*numbers), limit=limit, protected=kept)
    assert [r.spec.revision for r in beyond_limit] == dropped


def test_equal_specs_are_one_revision_whatever_the_order_of_their_keys() -> None:
    body = blueprints.blueprint()
    body["spec"] = dict(reversed(body["spec"].items()))
    revision = revision_history.revision_of_spec(Blueprint.from_dict(body).spec, revisions(1, 2))
    assert revision is not None
    assert revision.spec.revision == 2
