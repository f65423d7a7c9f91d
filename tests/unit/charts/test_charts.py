"""The charts as text: what the operator may do, and what goes together.

Only the last test needs Helm. For the others, lines that hold only a template action are dropped
and other actions are replaced by a word; the e2e tier installs what Helm itself renders.
"""

import json
import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from kais import admission
from kais.resources.kinds import KINDS
from kais_cluster import charts
from knowledge_service.extraction import settings as extraction_settings

ROOT = Path(__file__).parents[3]
CHARTS = ROOT / "charts"
TEMPLATES = CHARTS / "kais/templates"
RULES = CHARTS / "kais/rules"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PLURALS = {kind.PLURAL for kind in KINDS}

Body = dict[str, Any]


def objects(name: str) -> list[Body]:
    lines = (TEMPLATES / name).read_text().splitlines()
    stored_lines = [line for line in lines if not re.fullmatch(r"\s*\{\{.*\}\}\s*", line)]
    text = re.sub(r"\{\{.*?\}\}", "x", "\n".join(stored_lines))
    return [body for body in yaml.safe_load_all(text) if body]


def rules(name: str) -> list[Body]:
    """The rules of one file, which roles take whole."""
    return list(yaml.safe_load((RULES / f"{name}.yaml").read_text()))


def grants(some: list[Body]) -> set[tuple[str, str, str]]:
    """Every (group, resource, verb) that some rules give."""
    return {
        grant
        for rule in some
        for grant in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


EVERY_RULE = [
    *(rule for path in sorted(RULES.glob("*.yaml")) for rule in rules(path.stem)),
    *(
        rule
        for path in sorted(TEMPLATES.glob("*.yaml"))
        for body in objects(path.name)
        for rule in body.get("rules") or []
    ),
]


def test_no_role_has_a_wildcard() -> None:
    assert EVERY_RULE
    assert not [grant for grant in grants(EVERY_RULE) if "*" in grant]


@pytest.mark.parametrize(
    "resource", ["secrets", "roles", "rolebindings", "clusterroles", "clusterrolebindings"]
)
def test_no_role_touches_secrets_or_rights(resource: str) -> None:
    assert not [grant for grant in grants(EVERY_RULE) if grant[1].split("/")[0] == resource]


def test_no_role_impersonates_or_escalates() -> None:
    verbs = {verb for _, _, verb in grants(EVERY_RULE)}

    assert not verbs & {"impersonate", "escalate", "bind"}


def test_operator_reads_every_kind_and_writes_its_status() -> None:
    granted = grants(rules("operator"))

    for plural in PLURALS:
        assert {("kais.io", plural, verb) for verb in ("get", "list", "watch", "patch")} <= granted
        assert ("kais.io", f"{plural}/status", "patch") in granted


def test_operator_does_not_create_what_users_write() -> None:
    granted = grants(rules("operator"))

    created = {plural for group, plural, verb in granted if (group, verb) == ("kais.io", "create")}
    assert created == {"blueprintrevisions", "formations", "cells", "missions"}


def test_operator_writes_leases_in_its_own_namespace_only() -> None:
    everywhere = {*grants(rules("operator")), *grants(rules("operator-watching"))}

    assert {resource for _, resource, _ in grants(rules("operator-home"))} == {"leases"}
    assert {verb for _, resource, verb in everywhere if resource == "leases"} == {"list", "watch"}


def test_operator_of_some_namespaces_only_reads_in_its_own_besides_the_outbox() -> None:
    written_grants = {
        resource
        for _, resource, verb in grants(rules("operator-home-watching"))
        if verb not in ("list", "watch")
    }

    assert written_grants == {"configmaps"}


def test_operator_of_some_namespaces_may_list_at_home_whatever_it_watches_elsewhere() -> None:
    at_home = grants(rules("operator-home-watching"))
    watched = {g for g in grants(rules("operator")) if g[2] == "watch"}

    assert watched <= at_home


def test_service_may_only_review_tokens() -> None:
    role, _ = objects("knowledge-rbac.yaml")

    assert grants(role["rules"]) == {("authentication.k8s.io", "tokenreviews", "create")}


def test_people_with_edit_write_six_kinds_and_nobody_writes_revisions() -> None:
    view, edit, admin = (rules(f"people-{name}") for name in ("view", "edit", "admin"))

    assert {r for group, r, _ in grants(view) if group == "kais.io"} == PLURALS
    assert {v for _, _, v in grants(view)} == {"get", "list", "watch"}
    written_grants = {r for group, r, _ in grants(edit) if group == "kais.io"}
    assert written_grants == PLURALS - {"blueprintrevisions"}
    assert {v for _, _, v in grants(admin)} == {"delete", "deletecollection"}


def test_chart_binds_no_role_to_an_account_of_a_cell() -> None:
    """Values name the people; an installation without admission policies relies on this."""
    bindings = [
        body
        for path in sorted(TEMPLATES.glob("*.yaml"))
        for body in objects(path.name)
        if body["kind"] in ("RoleBinding", "ClusterRoleBinding")
    ]
    subjects = {subject["name"] for body in bindings for subject in body["subjects"] or []}

    assert subjects == {"x-operator", "x-knowledge"}
    assert "kais.io" not in {group for group, _, _ in grants(rules("people-release"))}


def test_people_with_edit_may_ask_for_a_token_of_their_realms_account_only() -> None:
    (token,) = [r for r in rules("people-edit") if r["resources"] == ["serviceaccounts/token"]]

    assert (token["resourceNames"], token["verbs"]) == (["kais-user"], ["create"])


def test_the_admission_policies_of_the_chart_are_what_the_code_generates() -> None:
    generated = admission.files()
    for name, text in generated.items():
        assert (ROOT / name).read_text() == text
    committed = (ROOT / admission.FOLDER).iterdir()
    assert {str(path.relative_to(ROOT)) for path in committed} == set(generated)
    assert ("kais.io", "cells", admission.APPROVE) in grants(rules("people-edit"))
    assert ("kais.io", "cells", admission.APPROVE) in grants(rules("operator"))


@pytest.mark.parametrize("chart", ["kais", "kais-crds"])
def test_chart_has_the_version_of_the_project(chart: str) -> None:
    result = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())

    assert (result["version"], result["appVersion"]) == (VERSION, VERSION)


def test_two_operators_run_and_spread_over_the_nodes_that_there_are() -> None:
    values = yaml.safe_load((CHARTS / "kais/values.yaml").read_text())
    (deployment,) = (b for b in objects("operator-deployment.yaml") if b["kind"] == "Deployment")
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]

    assert values["operator"]["replicas"] == 2
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


def test_a_cluster_made_here_has_one_operator_and_a_price_for_the_scripted_model() -> None:
    prices = {"openai/scripted": {"input": "1", "output": "4"}}
    assert charts.with_cluster_defaults({"namespaces": ["a"]}) == {
        "namespaces": ["a"],
        "operator": {"replicas": 1},
        "agents": {"prices": prices},
    }
    two = charts.with_cluster_defaults({"operator": {"replicas": 2, "logLevel": "DEBUG"}})
    assert two["operator"] == {"replicas": 2, "logLevel": "DEBUG"}


def test_images_come_from_the_values() -> None:
    images = [
        line.strip()
        for path in TEMPLATES.glob("*.yaml")
        for line in path.read_text().splitlines()
        if line.strip().startswith("image:")
    ]

    own_images = [image for image in images if 'include "kais.image"' in image]
    assert len(own_images) == 5  # operator, renderer, uninstall hook, service, its backup
    assert set(images) - set(own_images) == {"image: {{ .image | quote }}"}  # of the replication


def test_every_value_is_in_the_schema_and_in_the_reference() -> None:
    values = yaml.safe_load((CHARTS / "kais/values.yaml").read_text())
    schema = json.loads((CHARTS / "kais/values.schema.json").read_text())
    reference = (ROOT / "docs/reference/chart.md").read_text()

    for path in leaves(values, schema):
        assert f"`{path}`" in reference, f"docs/reference/chart.md lacks {path}"


def leaves(values: Body, schema: Body) -> list[str]:
    """The paths of all values; fails on one that the schema does not know."""
    results = []

    def walk(node: Any, known_fields: Body, path: str) -> None:
        if "$ref" in known_fields:
            known_fields = schema["definitions"][known_fields["$ref"].rsplit("/", 1)[1]]
        if not isinstance(node, dict) or "properties" not in known_fields:
            results.append(path)
            return
        for key, value in node.items():
            assert key in known_fields["properties"], f"values.schema.json lacks {path}.{key}"
            walk(value, known_fields["properties"][key], f"{path}.{key}".lstrip("."))

    walk(values, schema, "")
    return results


def test_service_reads_every_field_that_an_extraction_model_may_have() -> None:
    model = {
        "url": "https://models/v1", "api": "openai", "model": "m", "input": "1", "output": "2",
        "maxTokens": 100, "verify": False,
    }  # fmt: skip
    schema = json.loads((CHARTS / "kais/values.schema.json").read_text())
    extraction = schema["properties"]["knowledge"]["properties"]["extraction"]["properties"]
    fields = extraction["models"]["additionalProperties"]["properties"]
    assert set(fields) == {*model, "secretKey"}
    endpoint = extraction_settings.read({"KAIS_EXTRACTION_MODELS": json.dumps({"m": model})})
    assert not endpoint.models["m"].is_verifying


def test_metrics_of_the_service_are_on_a_port_that_cells_do_not_reach() -> None:
    workload, *remaining_objects = objects("knowledge-statefulset.yaml")
    container = workload["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (report,) = [item["value"] for item in container["env"] if item["name"] == "KAIS_METRICS_PORT"]
    assert ports == {"http": 8000, "metrics": int(report)}
    (service,) = [body for body in remaining_objects if body["kind"] == "Service"]
    assert [port["port"] for port in service["spec"]["ports"]] == [8000]

    (policy,) = objects("knowledge-networkpolicy.yaml")
    open_, bounded = policy["spec"]["ingress"]
    assert open_ == {"ports": [{"protocol": "TCP", "port": "http"}]}
    assert bounded["ports"] == [{"protocol": "TCP", "port": "metrics"}]
    assert "from" in bounded, "without peers it would be everybody"
    values = yaml.safe_load((CHARTS / "kais/values.yaml").read_text())
    (peer,) = values["knowledge"]["metrics"]["from"]
    (rule,) = peer["podSelector"]["matchExpressions"]
    assert rule == {"key": "kais.io/role", "operator": "NotIn", "values": ["cell"]}


def test_replication_sees_the_database_and_outlives_the_service() -> None:
    workload, *remaining_objects = objects("knowledge-statefulset.yaml")
    pod = workload["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    mounts = {mount["name"]: mount["mountPath"] for mount in sidecar["volumeMounts"]}
    assert mounts["data"] == pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/data"
    assert "replication" in {volume["name"] for volume in pod["volumes"]}
    assert "ConfigMap" in {body["kind"] for body in remaining_objects}


@pytest.mark.parametrize("name", ["operator-deployment.yaml", "knowledge-statefulset.yaml"])
def test_pods_write_to_mounted_volumes_only(name: str) -> None:
    workload = objects(name)[0]
    container, *_ = workload["spec"]["template"]["spec"]["containers"]
    helpers = (TEMPLATES / "_helpers.tpl").read_text()

    assert "readOnlyRootFilesystem: true" in helpers
    assert "runAsNonRoot: true" in helpers
    text = (TEMPLATES / name).read_text()
    assert 'include "kais.containerSecurity"' in text
    assert 'include "kais.podSecurity"' in text
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["tmp"] == "/tmp"  # noqa: S108 - where the kubelet mounts a volume
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "http"


def test_operator_makes_and_removes_what_service_cells_are_made_of() -> None:
    granted = grants(rules("operator"))

    expected = {("apps", "deployments"), ("", "services"), ("", "persistentvolumeclaims")}
    verbs = ("get", "list", "watch", "create", "patch", "delete")
    assert {(*kind, verb) for kind in expected for verb in verbs} <= granted


def test_cells_may_reach_everything_but_where_clouds_keep_the_nodes_credentials() -> None:
    (policy,) = objects("cells-networkpolicy.yaml")

    assert policy["spec"]["podSelector"]["matchLabels"] == {"kais.io/role": "cell"}
    assert policy["spec"]["policyTypes"] == ["Egress"]
    everywhere, names = policy["spec"]["egress"]
    *addresses, pods = everywhere["to"]
    assert pods == {"namespaceSelector": {}}
    blocks = {to["ipBlock"]["cidr"]: to["ipBlock"]["except"] for to in addresses}
    assert blocks["0.0.0.0/0"] == ["169.254.0.0/16"]
    assert blocks["::/0"] == ["fe80::/10", "fd00:ec2::254/128"]
    assert {(port["protocol"], port["port"]) for port in names["ports"]} == {
        ("UDP", 53),
        ("TCP", 53),
    }


def operator_pod() -> Body:
    (deployment,) = (b for b in objects("operator-deployment.yaml") if b["kind"] == "Deployment")
    return dict(deployment["spec"]["template"]["spec"])


def test_only_the_operators_container_has_a_token() -> None:
    pod = operator_pod()
    operator, renderer = pod["containers"]
    tokens = {
        volume["name"]
        for volume in pod["volumes"]
        for source in volume.get("projected", {}).get("sources", [])
        if "serviceAccountToken" in source
    }

    assert pod["automountServiceAccountToken"] is False
    assert tokens == {"api-token", "knowledge-token"}
    assert tokens <= {mount["name"] for mount in operator["volumeMounts"]}
    assert [mount["name"] for mount in renderer["volumeMounts"]] == ["renderer"]


def test_the_operators_token_is_where_the_kubelet_would_mount_it() -> None:
    pod = operator_pod()
    (volume,) = (mounted for mounted in pod["volumes"] if mounted["name"] == "api-token")
    (mount,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "api-token")
    paths = set()
    for source in volume["projected"]["sources"]:
        (projection,) = source.values()
        paths |= {item["path"] for item in projection.get("items", [projection])}

    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mount["readOnly"] is True
    assert paths == {"token", "ca.crt", "namespace"}


def test_the_renderer_runs_as_another_user_and_meets_the_operator_at_one_socket() -> None:
    pod = operator_pod()
    operator, renderer = pod["containers"]
    helpers = (TEMPLATES / "_helpers.tpl").read_text()
    socket = "/run/kais/renderer.sock"

    assert renderer["securityContext"] == {"runAsUser": 65533, "runAsGroup": 65533}
    assert "runAsUser: 65532" in helpers
    assert {"name": "KAIS_RENDERER_SOCKET", "value": socket} in operator["env"]
    assert renderer["command"][-4:] == ["serve", "--own-user-pings-only", "--socket", socket]
    assert "-P" in renderer["command"], "the working directory is no place for imports"
    mounts = {
        c["name"]: m
        for c in pod["containers"]
        for m in c["volumeMounts"]
        if m["name"] == "renderer"
    }
    assert mounts["operator"] == {
        "name": "renderer",
        "mountPath": "/run/kais",
        "readOnly": True,
    }
    assert mounts["renderer"] == {"name": "renderer", "mountPath": "/run/kais"}


def test_every_container_of_the_operators_pod_keeps_to_the_restricted_standard() -> None:
    text = (TEMPLATES / "operator-deployment.yaml").read_text()

    assert text.count('include "kais.containerSecurity"') == len(operator_pod()["containers"])
    assert 'include "kais.podSecurity"' in text


def test_what_the_renderer_has_without_a_value_is_what_the_values_say() -> None:
    """`helm upgrade --reuse-values` keeps the values of a chart that knew no renderer."""
    helpers = (TEMPLATES / "_helpers.tpl").read_text()
    defaults = re.search(r'"kais.rendererDefaults" -\}\}\n(.*?)\{\{- end', helpers, re.DOTALL)
    values = yaml.safe_load((CHARTS / "kais/values.yaml").read_text())

    assert defaults is not None
    assert yaml.safe_load(defaults[1]) == values["operator"]["renderer"]["resources"]
    assert [p.name for p in TEMPLATES.iterdir() if ".operator.renderer" in p.read_text()] == []
