"""History, differences, statistics and going back: what a template was and would be."""

import copy
import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kais import canary, labels
from kais_cli.blueprints import render_requests
from kais_cli.exit_status import ExitStatus
from kais_rendering.worker_handle import RenderProcess
from tests.cli import objects


def older():
    body = objects.revision(number=1)
    body["spec"] = copy.deepcopy(body["spec"])
    body["spec"]["parameters"][0]["max"] = 30
    del body["spec"]["description"]
    return body


@pytest.fixture(autouse=True)
def revisions(cluster):
    newest = objects.revision()
    newest["spec"]["changes"] = "parameter 'seconds' allows more"
    newest["status"] = {
        "usageCount": 4,
        "avgSuccessRate": 0.75,
        "conditions": [
            objects.condition("Compiled", "True", "Compiled"),
            objects.condition("Compatible", "True", "Compatible"),
        ],
    }
    cluster.put(objects.blueprint())
    cluster.put(older())
    cluster.put(newest)


def test_history_marks_the_revision_that_serves(terminal):
    assert terminal.run("blueprint", "history", "doctor") == 0
    assert terminal.out.splitlines() == [
        "REVISION  AGE  COMPILED  COMPATIBLE  USES  SUCCESS  CHANGES",
        "2*        2m   True      True        4     75%      parameter 'seconds' allows more",
        "1         2m   -         -           -     -        first",
    ]


def test_history_gives_names_that_kubectl_takes(terminal):
    terminal.run("blueprint", "history", "doctor", "-o", "name")
    assert terminal.out.splitlines() == [
        "blueprintrevision.kais.io/doctor-r00002",
        "blueprintrevision.kais.io/doctor-r00001",
    ]


def test_diff_of_revisions_is_told_in_words_and_lines(terminal):
    assert terminal.run("blueprint", "diff", "doctor") == 0
    assert terminal.out.startswith("revision 1 → revision 2:\n")
    assert "  -  max: 30\n  +  max: 60\n" in terminal.out
    assert "+description: Looks at pods" in terminal.out


def test_diff_of_equal_templates_says_so(terminal):
    terminal.run("blueprint", "diff", "doctor", "--from", "2", "--to", "2")
    assert terminal.out == "revision 2 and revision 2 have the same template\n"


def test_diff_names_the_revisions_there_are(terminal):
    assert terminal.run("blueprint", "diff", "doctor", "--from", "9") == ExitStatus.FAILED
    assert terminal.err == "error: Blueprint/demo/doctor has no revision 9; it has 1, 2\n"


def changed(tmp_path, **fields):
    template = copy.deepcopy(objects.TEMPLATE)
    template.update(fields)
    body = {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": "doctor"},
        "spec": template,
    }
    path = tmp_path / "doctor.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return str(path)


def test_diff_of_a_file_tells_nothing_of_the_order_of_keys(terminal, cluster, tmp_path):
    sorted_by_the_server = older()
    sorted_by_the_server["spec"] = json.loads(json.dumps(older()["spec"], sort_keys=True))
    cluster.put(sorted_by_the_server)
    file = changed(tmp_path)
    assert terminal.run("blueprint", "diff", "doctor", "-f", file, "--from", "1") == 0
    lines = terminal.out.partition("Template:")[2].splitlines()
    reported_lines = [line.strip() for line in lines if line.startswith(("  +", "  -"))]
    assert reported_lines[2:] == ["+description: Looks at pods", "-  max: 30", "+  max: 60"]


def test_diff_of_a_file_shows_the_objects_of_each_live_use(terminal, cluster, tmp_path):
    use = objects.instance("now", revisionInUse=2)
    use["spec"]["parameters"] = {"who": "bob"}
    other_instance = objects.instance("else", revisionInUse=2)
    other_instance["spec"] = {"blueprintRef": {"name": "doctor"}, "parameters": {"who": "ann"}}
    cluster.put(use)
    cluster.put(other_instance)
    file = changed(tmp_path, mission={"objective": "ask {{ who }}"})

    assert terminal.run("blueprint", "diff", "doctor", "-f", file) == 0
    assert "Live instances:" in terminal.out
    assert "now (updatePolicy Manual):" in terminal.out
    assert "-objective: look for bob within 5 s" in terminal.out
    assert terminal.err == ""
    assert "+objective: ask bob" in terminal.out
    assert "+objective: ask ann" in terminal.out


def test_diff_of_a_file_says_that_a_mission_that_was_made_stays(terminal, cluster, tmp_path):
    use = objects.instance("now", revisionInUse=2, runId="r-1")
    use["spec"]["parameters"] = {"who": "bob"}
    cluster.put(use)
    file = changed(tmp_path, mission={"objective": "ask {{ who }}"})
    terminal.run("blueprint", "diff", "doctor", "-f", file)
    assert terminal.out.endswith(
        "  now (updatePolicy Manual): its Mission stays unchanged, also in a retry, until"
        " spec.blueprintRef.revision of the instance names the new revision;"
        " `kais mission retry now` then runs it. Or create a new instance\n"
    )


def test_diff_of_a_file_goes_on_past_uses_that_cannot_be_compared(terminal, cluster, tmp_path):
    cluster.put(objects.instance("fresh"))
    cluster.put(objects.instance("old", revisionInUse=7))
    terminal.run("blueprint", "diff", "doctor", "-f", changed(tmp_path), "-o", "json")
    assert [(use["name"], use["note"]) for use in json.loads(terminal.out)["uses"]] == [
        ("fresh", "it has no revision yet"),
        ("old", "its revision 7 was deleted, so nothing can be compared"),
    ]


def test_diff_of_a_file_says_of_no_use_that_was_not_compared_that_nothing_changes(
    terminal, cluster, tmp_path
):
    cluster.put(objects.instance("fresh"))
    cluster.put(objects.instance("old", revisionInUse=7))
    terminal.run("blueprint", "diff", "doctor", "-f", changed(tmp_path))
    assert terminal.out.endswith(
        "  fresh (updatePolicy Manual): it has no revision yet\n"
        "  old (updatePolicy Manual): its revision 7 was deleted,"
        " so nothing can be compared\n"
    )


def test_diff_of_a_file_renders_all_uses_in_one_process_and_reads_a_revision_once(
    terminal, cluster, tmp_path, monkeypatch
):
    for number in range(100):
        use = objects.instance(f"use-{number:03d}", revisionInUse=1 + number % 2)
        use["spec"]["parameters"] = {"who": "b" * (number + 1)}
        cluster.put(use)
    file = changed(tmp_path, mission={"objective": "ask {{ who }}"})
    started, read = [], []
    start, get = RenderProcess.start, cluster.get
    monkeypatch.setattr(RenderProcess, "start", lambda **k: started.append(k) or start(**k))
    monkeypatch.setattr(type(cluster), "get", lambda _, *a, **k: read.append(a) or get(*a, **k))

    assert terminal.run("blueprint", "diff", "doctor", "-f", file) == 0

    assert f"+objective: ask {'b' * 100}" in terminal.out
    assert len(started) <= 3, "one compiles what is in the file, one renders"
    assert len([name for kind, *name in read if kind == "BlueprintRevision"]) <= 3
    assert terminal.err.splitlines()[1] == "comparing the instances: 10 of 100"


def test_diff_of_a_file_ends_a_use_that_would_never_end(terminal, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(render_requests, "_LIMIT_S", 2)
    use = objects.instance("now", revisionInUse=2)
    use["spec"]["parameters"] = {"who": "a" * 40 + "!"}
    cluster.put(use)
    seconds, _, tier = objects.TEMPLATE["parameters"]
    slow = {"name": "who", "type": "string", "pattern": "(a+)+", "example": "a"}
    file = changed(tmp_path, parameters=[seconds, slow, tier])
    assert terminal.run("blueprint", "diff", "doctor", "-f", file) == ExitStatus.USAGE
    assert "for now, took more than 2 s, at parameter" in terminal.err


def test_diff_of_a_file_says_which_use_cannot_take_it(terminal, cluster, tmp_path):
    use = objects.instance("now", revisionInUse=2)
    use["spec"]["parameters"] = {"who": "bob"}
    cluster.put(use)
    parameters = [*objects.TEMPLATE["parameters"], {"name": "ward", "type": "string"}]
    file = changed(tmp_path, parameters=parameters)

    terminal.run("blueprint", "diff", "doctor", "-f", file, "-o", "json")
    document = json.loads(terminal.out)
    assert document["breaking"] == ["parameter 'ward' was added and is required"]
    assert document["uses"][0]["problems"] == ["parameter 'ward': is required"]


def test_diff_of_a_file_that_does_not_compile_is_a_usage_error(terminal, tmp_path):
    file = changed(tmp_path, mission={"objective": "look for {{ whom }}"})
    assert terminal.run("blueprint", "diff", "doctor", "-f", file) == ExitStatus.USAGE
    assert "does not compile:\n  mission.objective" in terminal.err
    assert "whom" in terminal.err


def test_diff_of_a_file_without_that_blueprint_names_those_in_it(terminal, tmp_path):
    file = changed(tmp_path)
    cluster_name = "nurse"
    terminal.cluster.put(objects.blueprint(cluster_name))
    terminal.cluster.put(objects.revision(cluster_name))
    assert terminal.run("blueprint", "diff", cluster_name, "-f", file) == ExitStatus.USAGE
    assert terminal.err == f"error: {file} has no Blueprint nurse; it has doctor\n"


def on_trial(verdict=None, **spec):
    body = objects.blueprint(servedRevision=1)
    body["spec"] = {**body["spec"], "rollout": {"canaryPercent": 20}, **spec}
    state = canary.begin(2, over=1, now=datetime(2026, 1, 1, tzinfo=UTC))
    state = dataclasses.replace(state, verdict=verdict)
    body["metadata"]["annotations"] = {labels.CANARY: canary.dump(state)}
    body["status"]["conditions"].append(
        {
            **objects.condition("RolledOut", "False", "CanaryRunning"),
            "message": "revision 2 gets 20 % of new instances, revision 1 the others",
        }
    )
    return body


def test_history_shows_the_canary(terminal, cluster):
    cluster.put(on_trial())
    assert terminal.run("blueprint", "history", "doctor") == 0
    assert terminal.out.splitlines()[1:] == [
        "2         2m   True      True        4     75%      parameter 'seconds' allows more",
        "1*        2m   -         -           -     -        first",
        "",
        "CanaryRunning: revision 2 gets 20 % of new instances, revision 1 the others",
    ]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("promote", "doctor: revision 2 is to be promoted\n"),
        ("stop", "doctor: the canary, revision 2, is to be stopped\n"),
    ],
)
def test_a_canary_is_promoted_and_stopped_by_hand(terminal, cluster, action, text):
    cluster.put(on_trial())
    assert terminal.run("blueprint", action, "doctor") == 0
    assert terminal.out == text
    annotations = cluster.get("Blueprint", "demo", "doctor")["metadata"]["annotations"]
    assert annotations[labels.CANARY_REQUEST] == f"{action} 2"


def test_a_stopped_canary_can_still_be_promoted(terminal, cluster):
    cluster.put(on_trial(canary.Verdict.REGRESSED))
    assert terminal.run("blueprint", "promote", "doctor") == 0


@pytest.mark.parametrize(
    ("body", "action", "text"),
    [
        (
            objects.blueprint(),
            "stop",
            "Blueprint/demo/doctor has no canary; with spec.rollout, its next revision is one",
        ),
        (
            on_trial(canary.Verdict.REGRESSED),
            "stop",
            "the canary of Blueprint/demo/doctor, revision 2, has ended: Regressed",
        ),
        (
            on_trial(canary.Verdict.PROMOTED),
            "promote",
            (
                "revision 2 of Blueprint/demo/doctor is promoted already;"
                " to return, run `kais blueprint rollback doctor`"
            ),
        ),
    ],
)
def test_without_a_canary_to_decide_about_the_cause_is_named(terminal, cluster, body, action, text):
    cluster.put(body)
    assert terminal.run("blueprint", action, "doctor") == ExitStatus.FAILED
    assert terminal.err == f"error: {text}\n"
    assert not cluster.patched


def test_rollback_gives_the_whole_earlier_template(terminal, cluster):
    assert terminal.run("blueprint", "rollback", "doctor") == 0
    assert terminal.out.startswith("doctor: template of revision 1 again\n")
    spec = cluster.get("Blueprint", "demo", "doctor")["spec"]
    assert "description" not in spec
    assert spec["parameters"][0]["max"] == 30


def test_rollback_with_dry_run_changes_nothing(terminal, cluster):
    terminal.run("blueprint", "rollback", "doctor", "--to", "1", "--dry-run")
    assert terminal.out.startswith(
        "doctor: template of revision 1 again (dry run, nothing changed)\n"
    )
    assert cluster.patched[0][3] is True
    assert cluster.get("Blueprint", "demo", "doctor")["spec"] == objects.TEMPLATE


def checked(number, name="doctor", *, compiled="True", **spec):
    body = objects.revision(name, number)
    body["spec"] = {**body["spec"], **spec}
    reason = "Compiled" if compiled == "True" else "TemplateError"
    body["status"] = {"conditions": [objects.condition("Compiled", compiled, reason)]}
    return body


def with_template(body, **spec):
    body["spec"] = {**body["spec"], **spec}
    return body


BAD = {"mission": {"objective": "look for {{ whom }}"}}


def test_rollback_of_a_template_that_does_not_compile_gives_the_served_one(terminal, cluster):
    cluster.put(checked(3, compiled="False", **BAD))
    cluster.put(with_template(objects.blueprint(latestRevision=3, servedRevision=2), **BAD))
    assert terminal.run("blueprint", "rollback", "doctor") == 0
    assert terminal.out.startswith("doctor: template of revision 2 again\n")
    spec = cluster.get("Blueprint", "demo", "doctor")["spec"]
    assert spec["mission"] == objects.TEMPLATE["mission"]


def test_rollback_of_a_second_template_that_does_not_compile_gives_the_first(terminal, cluster):
    cluster.put(checked(2, compiled="False", **BAD))
    cluster.put(with_template(objects.blueprint(servedRevision=1), **BAD))
    assert terminal.run("blueprint", "rollback", "doctor") == 0
    assert terminal.out.startswith("doctor: template of revision 1 again\n")


def test_rollback_of_a_canary_gives_the_revision_that_serves_the_others(terminal, cluster):
    cluster.put(on_trial())
    assert terminal.run("blueprint", "rollback", "doctor") == 0
    assert terminal.out.startswith("doctor: template of revision 1 again\n")


def test_rollback_of_a_template_just_applied_gives_the_served_one(terminal, cluster):
    mission = {"objective": "ask {{ who }}"}
    cluster.put(with_template(objects.blueprint(), mission=mission))
    assert terminal.run("blueprint", "rollback", "doctor") == 0
    assert terminal.out.startswith("doctor: template of revision 2 again\n")


def test_rollback_passes_over_revisions_that_do_not_compile(terminal, cluster):
    mission = {"objective": "ask {{ who }}"}
    cluster.put(checked(2, compiled="False", **BAD))
    cluster.put(checked(3, mission=mission))
    served = objects.blueprint(latestRevision=3, servedRevision=3)
    cluster.put(with_template(served, mission=mission))
    assert terminal.run("blueprint", "rollback", "doctor") == 0
    assert terminal.out.startswith("doctor: template of revision 1 again\n")


def test_rollback_goes_on_when_the_served_revision_was_deleted(terminal, cluster):
    cluster.put(checked(1, "nurse", mission={"objective": "ask {{ who }}"}))
    cluster.put(objects.blueprint("nurse"))
    assert terminal.run("blueprint", "rollback", "nurse") == 0
    assert terminal.out.startswith("nurse: template of revision 1 again\n")


def test_rollback_beyond_the_first_is_refused(terminal, cluster):
    body = objects.blueprint(servedRevision=1)
    kept = older()["spec"]
    template = {field: kept[field] for field in ("parameters", "formation", "mission")}
    cluster.put({**body, "spec": template})
    assert terminal.run("blueprint", "rollback", "doctor") == ExitStatus.FAILED
    assert terminal.err == (
        "error: Blueprint/demo/doctor has no revision before 1 that compiles;"
        " see `kais blueprint history doctor -n demo`\n"
    )


def test_rollback_of_an_only_revision_that_does_not_compile_is_refused(terminal, cluster):
    cluster.put(checked(1, "nurse", compiled="False", **BAD))
    body = objects.blueprint("nurse", latestRevision=1)
    del body["status"]["servedRevision"]
    cluster.put(with_template(body, **BAD))
    assert terminal.run("blueprint", "rollback", "nurse") == ExitStatus.FAILED
    assert "has no revision before 1 that compiles" in terminal.err


def test_stats_show_the_whole_and_each_revision(terminal, cluster, knowledge):
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    counts = {
        "uses": 5,
        "running": 0,
        "succeeded": 3,
        "failed": 1,
        "excluded": 1,
        "success_rate": 0.75,
        "interval": {"low": 0.3, "high": 0.954},
    }
    knowledge.answers["GET /v1/stats/blueprints/demo/doctor"] = counts | {
        "namespace": "demo",
        "name": "doctor",
        "median_duration_s": 12.34,
        "revisions": [counts | {"revision": 2}],
        "parameters": [{"name": "tier", "values": [counts | {"value": '"small"'}, counts]}],
    }
    assert terminal.run("blueprint", "stats", "doctor") == 0
    lines = terminal.out.splitlines()
    assert lines[4:7] == [
        "",
        "EXCLUDED runs were cancelled, or the cluster could not run them; they do not count.",
        "CI95 is the 95 % confidence interval of the success rate.",
    ]
    del lines[4:7]
    assert lines[:7] == [
        "doctor in demo",
        "",
        "USES  SUCCEEDED  FAILED  EXCLUDED  RUNNING  SUCCESS  CI95",
        "5     3          1       1         0        75%      30-95%",
        "",
        "median duration: 12.3 s",
        "",
    ]
    assert lines[8].startswith("2         5     3")
    assert [line.split("  ")[0] for line in lines[10:]] == [
        "tier",
        '"small"',
        "(rarer values)",
    ]


def test_stats_compare_runs_with_and_without_knowledge(terminal, cluster, knowledge):
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    arm = {"uses": 20, "succeeded": 18, "failed": 2, "success_rate": 0.9}
    arm |= {"interval": {"low": 0.699, "high": 0.972}}
    arm["turns"] = {"runs": 20, "median": 3, "low": 3, "high": 4}
    arm["cost"] = {"runs": 20, "median": 0.0125, "low": 0.01, "high": 0.02}
    knowledge.answers["GET /v1/stats/blueprints/demo/doctor"] = {
        "namespace": "demo",
        "name": "doctor",
        "uses": 43,
        "comparisons": [
            {
                "revision": 2,
                "value": '"small"',
                "with_knowledge": arm,
                "without_knowledge": {"uses": 2, "succeeded": 1, "failed": 1},
                "sentence": "Too few runs to tell.",
                "not_compared": 1,
                "excluded_runs": [{"run_id": "r-7", "outcome": "Cancelled"}],
            }
        ],
    }
    assert terminal.run("blueprint", "stats", "doctor", "--by-parameter", "tier") == 0
    assert terminal.out.splitlines()[7:] == [
        "",
        'Knowledge, revision 2, "small": Too few runs to tell.',
        ("KNOWLEDGE  RUNS  SUCCEEDED  SUCCESS  CI95    TURNS       TOKENS  COST"),
        (
            "with       20    18         90%      70-97%  3 (3 to 4)  -"
            "       0.0125 (0.0100 to 0.0200)"
        ),
        "without    2     1          -        -       -           -       -",
        "not compared: 1 with knowledge switched off",
        "excluded: r-7 (Cancelled)",
    ]
    assert terminal.run("blueprint", "stats", "doctor", "-o", "json") == 0
    (comparison,) = json.loads(terminal.out)["comparisons"]
    assert comparison["withKnowledge"]["successRate"] == 0.9
    assert comparison["excludedRuns"] == [{"runId": "r-7", "outcome": "Cancelled"}]


def test_validate_tells_path_line_and_column(terminal, tmp_path):
    file = changed(tmp_path, mission={"objective": "one\ntwo {{ whom }}"})
    assert terminal.run("blueprint", "validate", "-f", file) == ExitStatus.USAGE
    assert terminal.err.startswith(f"error: Blueprint doctor in {file} does not compile:\n")
    assert "mission.objective" in terminal.err
    assert "line 2, column 8" in terminal.err


def test_validate_of_a_good_file_needs_no_cluster(terminal, tmp_path):
    file = changed(tmp_path)
    assert terminal.run("blueprint", "validate", "-f", file) == 0
    assert terminal.out.startswith(f"Blueprint doctor in {file}: the template parses")
    assert terminal.asked == []


def test_validate_takes_several_files_folders_and_standard_input(terminal, tmp_path):
    folder = tmp_path / "team"
    folder.mkdir()
    inside = changed(folder)
    (folder / "notes.yaml").write_text("kind: ConfigMap\n")
    (folder / "README.md").write_text("kind: [")
    terminal.stdin = Path(inside).read_text()
    assert terminal.run("blueprint", "validate", "-f", f"{folder}/", "-f", "-", "-f", inside) == 0
    assert [line.partition(":")[0] for line in terminal.out.splitlines()] == [
        f"Blueprint doctor in {inside}",
        "Blueprint doctor in standard input",
        f"Blueprint doctor in {inside}",
    ]


def test_validate_of_a_folder_without_objects_of_kais_says_so(terminal, tmp_path):
    assert terminal.run("blueprint", "validate", "-f", str(tmp_path)) == ExitStatus.USAGE
    assert f"{tmp_path} holds no file with an object of kais" in terminal.err


def test_validate_reads_the_folders_inside_a_folder_with_r(terminal, tmp_path):
    inner = tmp_path / "team" / "blueprints"
    inner.mkdir(parents=True)
    inside = changed(inner)
    (tmp_path / "loop").symlink_to(tmp_path)
    for option in ("-R", "--recursive"):
        assert terminal.run("blueprint", "validate", option, "-f", str(tmp_path)) == 0
        assert [line.partition(":")[0] for line in terminal.out.splitlines()] == [
            f"Blueprint doctor in {inside}"
        ]


def test_validate_of_a_folder_with_files_in_folders_below_names_the_option(terminal, tmp_path):
    inner = tmp_path / "team"
    inner.mkdir()
    changed(inner)
    assert terminal.run("blueprint", "validate", "-f", str(tmp_path)) == ExitStatus.USAGE
    assert f"{tmp_path} holds no file with an object of kais" in terminal.err
    assert terminal.err.endswith("; add -R to read the folders inside it\n")


MISSION = """
apiVersion: kais.io/v1
kind: Mission
metadata: {name: look}
spec:
  formationRef: team
  objective: Look for bob.
"""


def test_validate_names_unknown_fields_and_errors_of_the_template_at_once(terminal, tmp_path):
    file = Path(changed(tmp_path, mission={"objective": "{{ whom }}"}))
    file.write_text(file.read_text() + "note: x\n")
    assert terminal.run("blueprint", "validate", "-f", str(file)) == ExitStatus.USAGE
    assert "note: is not a field of this object" in terminal.err
    assert "mission.objective, line 1, column 4: 'whom' is not declared" in terminal.err


def test_validate_checks_the_fields_of_other_kinds(terminal, tmp_path):
    file = tmp_path / "mission.yaml"
    file.write_text(MISSION)
    assert terminal.run("blueprint", "validate", "-f", str(file)) == 0
    assert terminal.out == (
        f"Mission look in {file}: its fields are valid;"
        " the cluster decides about references and permissions\n"
    )
    assert terminal.asked == []


@pytest.mark.parametrize(
    ("correct", "mistake", "problem"),
    [
        ("objective:", "objektive:", "7: spec.objektive: is not a field of this object; did you"),
        ("formationRef:", "formationref:", "5: spec: exactly one of formationRef and cellRef"),
        ("kais.io/v1", "kais.io/v2", "2: apiVersion: must be kais.io/v1"),
        ("kind: Mission", "kind: Mision", "3: kind: is not a kind of kais"),
        (
            "{name: look}",
            "{name: look, namespace: a.b}",
            '4: metadata.namespace: Invalid value: "a.b": a lowercase RFC 1123 label must',
        ),
    ],
)
def test_validate_names_the_line_of_a_mistake_in_another_kind(
    terminal, tmp_path, correct, mistake, problem
):
    file = tmp_path / "mission.yaml"
    file.write_text(MISSION.replace(correct, mistake))
    assert terminal.run("blueprint", "validate", "-f", str(file)) == ExitStatus.USAGE
    assert f"look in {file} is invalid:" in terminal.err
    assert f"{file}:{problem}" in terminal.err


def test_validate_takes_metadata_that_only_the_api_server_uses(terminal, tmp_path):
    file = tmp_path / "mission.yaml"
    metadata = "{generateName: look-, managedFields: [], annotations: {a: b}}"
    file.write_text(MISSION.replace("{name: look}", metadata))
    assert terminal.run("blueprint", "validate", "-f", str(file)) == 0


SPECS = {
    "Blueprint": "{formation: {cells: []}}",
    "BlueprintInstance": "{blueprintRef: doctor}",
    "Formation": "{cells: []}",
    "Cell": "{kind: Service, container: {image: i}}",
    "Mission": "{cellRef: a, objective: o}",
    "KnowledgeScope": "{scope: 'realm:a'}",
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (
            "{name: Bad_Name}",
            (
                'metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must'
                " consist of lower case alphanumeric characters, '-' or '.', and must start and"
                " end with an alphanumeric character, such as bad-name\n"
            ),
        ),
        ("{labels: {a: b}}", "metadata.name: Required value: name or generateName is required\n"),
    ],
    ids=["name", "no name"],
)
def test_validate_refuses_names_that_the_api_server_refuses(
    terminal, tmp_path, kind, metadata, problem
):
    file = tmp_path / "a.yaml"
    file.write_text(
        f"apiVersion: kais.io/v1\nkind: {kind}\nmetadata: {metadata}\nspec: {SPECS[kind]}\n"
    )
    assert terminal.run("blueprint", "validate", "-f", str(file)) == ExitStatus.USAGE
    assert f"{file}:3: {problem}" in terminal.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "kind: Mission\nmetadata:\n\tname: a\n",
            ":3:1: a tab begins the line or the value; YAML is indented with spaces\n",
        ),
        (
            "kind: Mission\nspec:\n  a: [1,\n",
            (
                ":4:1: expected the node content, but found '<stream end>'"
                " (while parsing a flow node that begins in line 4)\n"
            ),
        ),
        ("a: *b\n", ":1:4: found undefined alias 'b'\n"),
        ("a: 1\nb: x\0y\n", ":2:5: the character U+0000 is not allowed in YAML; remove it\n"),
    ],
    ids=["tab", "not closed", "alias", "unprintable"],
)
def test_validate_names_file_line_and_column_of_what_is_not_yaml(terminal, tmp_path, text, problem):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert terminal.run("blueprint", "validate", "-f", str(file)) == ExitStatus.USAGE
    assert terminal.err == f"error: cannot read {file}{problem}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [", "cannot read"),
        ("kind: ConfigMap", "holds no object of kais"),
        ("kind: Blueprint\nmetadata: {name: a}\nspec: {formation: 3}", "does not compile"),
    ],
    ids=["no YAML", "another kind", "no template"],
)
def test_validate_of_another_file_says_why(terminal, tmp_path, text, message):
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert terminal.run("blueprint", "validate", "-f", str(file)) == ExitStatus.USAGE
    assert message in terminal.err


def test_validate_ends_a_pattern_that_never_ends_and_names_it(terminal, tmp_path, monkeypatch):
    monkeypatch.setattr(render_requests, "_LIMIT_S", 2)
    evil = {"name": "who", "type": "string", "pattern": "(a+)+b", "default": "a" * 60}
    file = changed(tmp_path, parameters=[evil], mission={"objective": "x"})
    assert terminal.run("blueprint", "validate", "-f", file) == ExitStatus.USAGE
    assert "took more than 2 s, at " in terminal.err
    assert "who" in terminal.err
