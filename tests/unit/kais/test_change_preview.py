import copy
from typing import Any

import pytest

from kais import change_preview
from kais.change_preview import ChangePreview
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from tests.fakes import blueprints


def impact(
    *, is_started: bool = False, use: dict[str, Any] | None = None, **spec: Any
) -> ChangePreview:
    head = blueprints.blueprint()
    body = blueprints.instance(parameters={"topic": "pods", "count": 2})
    body["spec"] |= use or {}
    if is_started:
        body["status"] = {"runId": "1"}
    template = copy.deepcopy(head["spec"]) | spec
    present = BlueprintRevision.from_dict(blueprints.revision(3, of=head))
    return change_preview.preview_template(
        template, BlueprintInstance.from_dict(body), present=present
    )


def formation(**cell: Any) -> dict[str, Any]:
    created = copy.deepcopy(blueprints.blueprint()["spec"]["formation"])
    created["cells"][0] |= cell
    return dict(created)


def test_a_template_that_renders_the_same_has_no_impact():
    assert impact(description="described anew") == ChangePreview()


def test_what_would_change_is_told_in_the_values_of_the_use():
    (change,) = impact(formation=formation(replicas="{{ count + 1 }}")).changes
    assert change.kind == "Formation"
    assert [tree["cells"][0]["replicas"] for tree in (change.before, change.after)] == [2, 3]


def test_a_mission_that_was_made_stays_until_a_retry_if_the_use_follows_its_blueprint():
    preview = impact(
        is_started=True,
        use={"updatePolicy": "Automatic"},
        mission={"objective": "mend {{ topic }}"},
    )
    note = "its Mission stays unchanged until `kais mission retry use` or a new instance"
    assert preview == ChangePreview(note=note)


@pytest.mark.parametrize(
    "use",
    [
        {"updatePolicy": "Manual"},
        {"updatePolicy": "Automatic", "blueprintRef": {"name": "doctor", "revision": 3}},
    ],
    ids=["Manual", "a revision is named"],
)
def test_a_retry_alone_does_not_bring_a_pinned_use_to_the_new_template(use):
    preview = impact(is_started=True, use=use, mission={"objective": "mend {{ topic }}"})
    assert preview == ChangePreview(
        note="its Mission stays unchanged, also in a retry, until spec.blueprintRef.revision of the"
        " instance names the new revision; `kais mission retry use` then runs it. Or create a new"
        " instance"
    )


def test_a_mission_that_is_not_made_yet_would_be_another():
    preview = impact(mission={"objective": "mend {{ topic }}", "entrypoint": {"cell": "worker"}})
    (change,) = preview.changes
    assert [tree["objective"] for tree in (change.before, change.after)] == [
        "explain pods",
        "mend pods",
    ]


def test_the_number_of_the_revision_is_no_change_by_itself():
    marked = formation(spec={"container": {"image": "a:{{ blueprint.revision }}"}})
    (change,) = impact(formation=marked).changes
    assert change.after["cells"][0]["spec"]["container"]["image"] == "a:3"


def test_an_impact_is_read_as_it_was_written():
    preview = impact(
        formation=formation(replicas=1), is_started=True, mission={"objective": "other"}
    )
    assert ChangePreview.from_dict(preview.to_dict()) == preview


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        pytest.param(
            [{"name": "topic", "type": "string"}],
            "parameter 'count': is not declared; declared: topic",
            id="a parameter that is gone",
        ),
        pytest.param(
            [{"name": "topic", "type": "string"}, {"name": "count", "type": "integer", "max": 1}],
            "parameter 'count': must be at most 1, got 2",
            id="a rule that is stricter",
        ),
    ],
)
def test_a_use_that_would_break_is_told_why(parameters, problem):
    preview = impact(parameters=parameters)
    assert preview.problems == (problem,)
    assert preview.changes == ()
