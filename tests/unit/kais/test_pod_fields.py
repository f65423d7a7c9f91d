"""The pod fields of cells: their schema, what belongs to kais, and the Secrets of a template."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import blueprint_rendering, compatibility, forbidden_pod_fields, pod_defaults
from kais.blueprint_rendering import Rendered
from kais.errors import InvalidResource
from kais.forbidden_pod_fields import Allowed
from kais.resources import pod_schema
from kais.resources.blueprint import TemplateSpec
from kais.resources.cell_template import CellTemplateSpec

NAMES = {"blueprint": "b", "revision": 1, "instance": "b-1", "namespace": "demo"}


def spec(*, container=None, pod=None, metadata=None, **fields):
    template = {"spec": pod or {}, **({"metadata": metadata} if metadata else {})}
    return {"container": {"image": "i", **(container or {})}, "podTemplate": template, **fields}


def broken(**fields):
    return [
        str(v) for v in forbidden_pod_fields.violations(CellTemplateSpec.from_dict(spec(**fields)))
    ]


def unread(**fields):
    with pytest.raises(InvalidResource) as caught:
        CellTemplateSpec.from_dict(spec(**fields))
    return [str(violation) for violation in caught.value.violations]


def volume(name="data", **source):
    return {"name": name, **(source or {"emptyDir": {}})}


TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}

UNREADABLE = {
    "an unknown field": (
        {"pod": {"volumes": [volume(emptyDirr={})]}},
        (
            "podTemplate.spec.volumes[0].emptyDirr: is not a field that a cell may set; "
            "did you mean emptyDir?"
        ),
    ),
    "a wrong quantity": (
        {"pod": {"volumes": [volume(emptyDir={"sizeLimit": "1 GB"})]}},
        (
            "podTemplate.spec.volumes[0].emptyDir.sizeLimit: must be a quantity such as 500m, 2 or "
            '256Mi, got "1 GB"'
        ),
    ),
    "two volumes with one name": (
        {"pod": {"volumes": [volume(), volume()]}},
        'podTemplate.spec.volumes[1]: name "data" is a duplicate',
    ),
    "a number in place of text": (
        {"pod": {"nodeSelector": {"gpu": 1}}},
        "podTemplate.spec.nodeSelector[gpu]: must be text, got 1",
    ),
    "a mount without a path": (
        {"container": {"volumeMounts": [{"name": "data"}]}},
        "container.volumeMounts[0].mountPath: is required",
    ),
}

BROKEN = {
    "a path of the host": (
        {"pod": {"volumes": [volume(hostPath={"path": "/"})]}},
        (
            "podTemplate.spec.volumes[0].hostPath: hostPath gives a cell "
            "the files of its node, and "
            "is not allowed: mount a persistentVolumeClaim, configMap, secret or emptyDir instead"
        ),
    ),
    "a volume of kais": (
        {"pod": {"volumes": [volume("kais-token")]}},
        'podTemplate.spec.volumes[0].name: "kais-token" is a volume of kais; choose another name',
    ),
    "a token without apiAccess": (
        {"pod": {"volumes": [volume(**TOKEN)]}},
        (
            "podTemplate.spec.volumes[0].projected.sources[0].serviceAccountToken: needs "
            "apiAccess: true, which gives the cell a token of its ServiceAccount"
        ),
    ),
    "a mount without a volume": (
        {
            "container": {"volumeMounts": [{"name": "date", "mountPath": "/d"}]},
            "pod": {"volumes": [volume()]},
        },
        (
            'container.volumeMounts[0].name: "date" is no volume of '
            "podTemplate.spec.volumes, and it "
            "has data; add the volume there"
        ),
    ),
    "a container of kais": (
        {"pod": {"initContainers": [{"name": "task", "image": "i"}]}},
        (
            'podTemplate.spec.initContainers[0].name: "task" is a '
            "container of kais; choose another "
            "name"
        ),
    ),
    "a sidecar at the port of the cell": (
        {
            "container": {"ports": [{"containerPort": 80}]},
            "pod": {
                "initContainers": [{"name": "p", "image": "i", "ports": [{"containerPort": 80}]}]
            },
        },
        (
            "podTemplate.spec.initContainers[0].ports[0].containerPort: 80 is a port of the "
            "cell, and all containers of a pod share their ports; choose another"
        ),
    ),
    "a variable of kais": (
        {"container": {"envFrom": [{"prefix": "KAIS_", "configMapRef": {"name": "c"}}]}},
        (
            'container.envFrom[0].prefix: "KAIS_" is reserved: variables that start with KAIS_ are '
            "set by kais; choose another prefix"
        ),
    ),
    "a label of kais": (
        {"metadata": {"labels": {"kais.io/cell": "other"}}},
        (
            "podTemplate.metadata.labels[kais.io/cell]: is reserved: "
            "keys under kais.io/ are set by "
            "kais; rename it"
        ),
    ),
    "an annotation of kais": (
        {"metadata": {"annotations": {"app.kubernetes.io/name": "x"}}},
        (
            "podTemplate.metadata.annotations[app.kubernetes.io/name]: is reserved: keys under "
            "app.kubernetes.io/ are set by kais; rename it"
        ),
    ),
    "root without saying so": (
        {"container": {"securityContext": {"runAsUser": 0}}},
        (
            "container.securityContext.runAsUser: 0 is root: also set "
            "runAsNonRoot: false there, in "
            "a namespace whose Pod Security level is not restricted"
        ),
    ),
}


@pytest.mark.parametrize(("fields", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_the_schema_of_kubernetes_does_not_have_is_refused(fields, message):
    assert unread(**fields) == [message]


@pytest.mark.parametrize(("fields", "message"), BROKEN.values(), ids=BROKEN)
def test_what_belongs_to_kais_is_refused_with_words(fields, message):
    assert broken(**fields) == [message]


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/tmp", "/tmp/", "/etc", "/etc/kais", "/etc/kais/topology", "//etc/kais"),  # noqa: S108 - in the pod
        *("/workspace", "/workspace/shared", "/var/run", "/var/run/secrets/x", "/run/secrets"),
        *("/data/../etc/kais", "/var/lib/kais-agent/state", "/dev/termination-log"),
    ],
)
def test_a_mount_cannot_cover_the_folders_of_kais(path):
    (message,) = broken(
        container={"volumeMounts": [{"name": "data", "mountPath": path}]},
        pod={"volumes": [volume()]},
    )
    assert message.startswith(f'container.volumeMounts[0].mountPath: "{path}" ')
    assert message.endswith("choose another folder")


@pytest.mark.parametrize(
    "path",
    ["/data", "/tmp/cache", "/workspace/shared/big", "/etc/ssl"],  # noqa: S108 - in the pod
)
def test_other_folders_can_be_mounted(path):
    mounts = [{"name": "data", "mountPath": path}]
    assert broken(container={"volumeMounts": mounts}, pod={"volumes": [volume()]}) == []


def test_with_api_access_a_token_can_be_projected():
    assert broken(pod={"volumes": [volume(**TOKEN)]}, apiAccess=True) == []


def test_a_sidecar_may_mount_the_workspace_but_not_the_token_of_the_cell():
    def mounting(name):
        mounts = [{"name": name, "mountPath": "/x"}]
        return broken(pod={"initContainers": [{"name": "s", "image": "i", "volumeMounts": mounts}]})

    assert mounting("workspace") == []
    assert len(mounting("kais-token")) == 1


@pytest.mark.parametrize(
    ("pod", "allowed", "path"),
    [
        ({"priorityClassName": "high"}, Allowed(), "podTemplate.spec.priorityClassName"),
        ({"runtimeClassName": "kata"}, Allowed(), "podTemplate.spec.runtimeClassName"),
        (
            {"tolerations": [{"operator": "Exists"}]},
            Allowed(),
            "podTemplate.spec.tolerations[0].key",
        ),
        (
            {"tolerations": [{"key": "node-role.kubernetes.io/control-plane"}]},
            Allowed(toleration_keys=("*",)),
            "podTemplate.spec.tolerations[0].key",
        ),
        ({"priorityClassName": "high"}, Allowed(priority_classes=("high",)), None),
        ({"runtimeClassName": "kata"}, Allowed(runtime_classes=("kata",)), None),
        ({"tolerations": [{"operator": "Exists"}]}, Allowed(toleration_keys=("*",)), None),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, Allowed(), None),
    ],
)
def test_what_reaches_beyond_a_team_needs_the_installation(pod, allowed, path):
    cell = CellTemplateSpec.from_dict(spec(pod=pod))
    violations = forbidden_pod_fields.installation_violations(cell, allowed, namespace_labels={})
    assert [violation.path for violation in violations] == ([path] if path else [])


def beyond_baseline(labels=None, **fields):
    cell = CellTemplateSpec.from_dict(spec(**fields))
    found = forbidden_pod_fields.installation_violations(
        cell, Allowed(), namespace_labels=labels or {}
    )
    return [violation.path for violation in found]


@pytest.mark.parametrize("level", [None, "baseline", "restricted"])
@pytest.mark.parametrize(
    ("context", "field"),
    [
        ({"privileged": True}, "privileged"),
        ({"procMount": "Unmasked"}, "procMount"),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, "capabilities.add"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
        ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile"),
        ({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions.type"),
        ({"seLinuxOptions": {"user": "system_u"}}, "seLinuxOptions.user"),
        ({"seLinuxOptions": {"role": "system_r"}}, "seLinuxOptions.role"),
    ],
)
def test_power_over_the_node_needs_a_namespace_that_is_privileged(level, context, field):
    fields = {"container": {"securityContext": context}}
    labels = {} if level is None else {forbidden_pod_fields.ENFORCE_LABEL: level}
    assert beyond_baseline(labels, **fields) == [f"container.securityContext.{field}"]
    assert beyond_baseline({forbidden_pod_fields.ENFORCE_LABEL: "privileged"}, **fields) == []


def test_a_namespace_without_a_level_allows_only_the_labels_of_selinux_for_containers():
    sidecar = {"name": "s", "image": "i", "securityContext": {"seLinuxOptions": {"type": "spc_t"}}}
    assert beyond_baseline(
        pod={
            "securityContext": {"seLinuxOptions": {"role": "system_r"}},
            "initContainers": [sidecar],
        }
    ) == [
        "podTemplate.spec.securityContext.seLinuxOptions.role",
        "podTemplate.spec.initContainers[0].securityContext.seLinuxOptions.type",
    ]
    for label in ("container_t", "container_init_t", "container_kvm_t", "container_engine_t"):
        options = {"type": label, "level": "s0:c1,c2"}
        assert beyond_baseline(pod={"securityContext": {"seLinuxOptions": options}}) == []


def test_a_namespace_without_a_level_allows_only_safe_sysctls():
    def setting(*sysctls):
        listed = [{"name": name, "value": "1"} for name in sysctls]
        return beyond_baseline(pod={"securityContext": {"sysctls": listed}})

    assert setting("net.ipv4.tcp_rmem", "kernel.msgmax", "net/ipv4/tcp_rmem") == [
        "podTemplate.spec.securityContext.sysctls[1].name",
        "podTemplate.spec.securityContext.sysctls[2].name",
    ]
    assert setting("kernel.shm_rmid_forced", "net.ipv4.tcp_keepalive_time") == []


@pytest.mark.parametrize("profile", ["unconfined", "other"])
def test_a_namespace_without_a_level_allows_no_other_profile_in_an_annotation(profile):
    key = "container.apparmor.security.beta.kubernetes.io/task"
    assert beyond_baseline(metadata={"annotations": {key: profile}}) == [
        f"podTemplate.metadata.annotations[{key}]"
    ]
    for allowed in ("runtime/default", "localhost/strict", ""):
        assert beyond_baseline(metadata={"annotations": {key: allowed}}) == []


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_a_probe_sends_requests_from_the_node_to_no_other_host(probe, kind):
    def probing(**target):
        return {probe: {kind: {"port": 80, **target}}}

    host = {"host": "169.254.169.254"}
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", **probing(**host)}
    expected = [f"container.{probe}.{kind}.host"]
    alone = {"container": {"image": "i", **probing(**host)}}
    cell = CellTemplateSpec.from_dict(alone)
    found = forbidden_pod_fields.installation_violations(cell, Allowed(), namespace_labels={})
    assert [violation.path for violation in found] == expected
    assert beyond_baseline(pod={"initContainers": [sidecar]}) == [
        f"podTemplate.spec.initContainers[0].{probe}.{kind}.host"
    ]
    assert beyond_baseline(container=probing()) == []
    assert beyond_baseline(container=probing(host="")) == []


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
@pytest.mark.parametrize("moment", ["postStart", "preStop"])
def test_a_lifecycle_handler_sends_requests_from_the_node_to_no_other_host(moment, kind):
    handler = {moment: {kind: {"port": 80, "host": "10.0.0.1"}}}
    cell = CellTemplateSpec.from_dict({"container": {"image": "i", "lifecycle": handler}})
    found = forbidden_pod_fields.installation_violations(cell, Allowed(), namespace_labels={})
    assert [v.path for v in found] == [f"container.lifecycle.{moment}.{kind}.host"]
    sidecar = {"name": "s", "image": "i", "lifecycle": handler}
    assert beyond_baseline(pod={"initContainers": [sidecar]}) == [
        f"podTemplate.spec.initContainers[0].lifecycle.{moment}.{kind}.host"
    ]


def test_defaults_of_the_installation_are_checked_too():
    with pytest.raises(InvalidResource, match="hostPath"):
        pod_defaults.read_defaults(
            {"podTemplate": {"spec": {"volumes": [volume(hostPath={"path": "/"})]}}}
        )
    with pytest.raises(InvalidResource, match="pods: is neither container nor podTemplate"):
        pod_defaults.read_defaults({"pods": {}})


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_a_probe_replaces_that_of_the_defaults_as_a_whole(probe):
    defaults = {"container": {probe: {"httpGet": {"port": 80}, "periodSeconds": 3}}}
    own = {"exec": {"command": ["true"]}}
    cell = CellTemplateSpec.from_dict({"container": {"image": "i", probe: own}})
    merged = pod_defaults.with_defaults(cell, defaults).to_dict()
    assert merged["container"][probe] == own


def test_a_lifecycle_handler_replaces_that_of_the_defaults_as_a_whole():
    stop = {"exec": {"command": ["drain"]}}
    defaults = {
        "container": {"lifecycle": {"postStart": {"httpGet": {"port": 80}}, "preStop": stop}}
    }
    start = {"exec": {"command": ["true"]}}
    cell = CellTemplateSpec.from_dict(
        {"container": {"image": "i", "lifecycle": {"postStart": start}}}
    )
    merged = pod_defaults.with_defaults(cell, defaults).to_dict()
    assert merged["container"]["lifecycle"] == {"postStart": start, "preStop": stop}


@pytest.mark.parametrize("profile", ["seccompProfile", "appArmorProfile"])
def test_a_profile_replaces_that_of_the_defaults_as_a_whole(profile):
    base = {"securityContext": {profile: {"type": "Localhost", "localhostProfile": "strict"}}}
    own = {"securityContext": {profile: {"type": "RuntimeDefault"}}}
    defaults = {"container": base, "podTemplate": {"spec": base}}
    merged = pod_defaults.with_defaults(
        CellTemplateSpec.from_dict(spec(container=own, pod=own)), defaults
    ).to_dict()
    assert merged["container"]["securityContext"] == own["securityContext"]
    assert merged["podTemplate"]["spec"]["securityContext"] == own["securityContext"]


# --- templates


def blueprint(pod, *parameters, container=None):
    return {
        "parameters": list(parameters),
        "formation": {"cells": [{"name": "a", "spec": spec(pod=pod, container=container)}]},
    }


def rendered(template, **values):
    return blueprint_rendering.render_blueprint(template, values, **NAMES)


TEXT = {"name": "which", "type": "string", "default": "db"}
SECRET = {"name": "login", "type": "secretRef"}


@pytest.mark.parametrize(
    ("pod", "container", "path"),
    [
        (
            {"volumes": [volume(secret={"secretName": "{{ which }}"})]},
            None,
            "podTemplate.spec.volumes[0].secret.secretName",
        ),
        (
            {"imagePullSecrets": [{"name": "{{ which }}-pull"}]},
            None,
            "podTemplate.spec.imagePullSecrets[0].name",
        ),
        (
            {"volumes": [volume(projected={"sources": [{"secret": {"name": "{{ which }}"}}]})]},
            None,
            "podTemplate.spec.volumes[0].projected.sources[0].secret.name",
        ),
        (
            {},
            {"envFrom": [{"secretRef": {"name": "{{ which }}"}}]},
            "container.envFrom[0].secretRef.name",
        ),
        (
            {},
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {"secretKeyRef": {"name": "{{ which }}", "key": "k"}},
                    }
                ]
            },
            "container.env[0].valueFrom.secretKeyRef.name",
        ),
    ],
)
def test_text_never_chooses_a_secret(pod, container, path):
    result = rendered(blueprint(pod, TEXT, container=container))
    (message,) = result.violations
    assert message.startswith(f"formation.cells[0].spec.{path}: ")
    assert message.endswith(
        "is the name of a Secret from text: write it literally, or use {{ parameter.name }} of a "
        "parameter of type secretRef"
    )


CSI_TEXT = (
    "is text that may name a Secret for the driver: write it literally, or use "
    "{{ parameter.name }} of a parameter of type secretRef"
)


@pytest.mark.parametrize(
    ("attributes", "path"),
    [
        ({"secretName": "{{ which }}"}, "[secretName]"),
        ({"share": "//server/{{ which }}"}, "[share]"),
        ("{{ {'secretName': which} }}", "[secretName]"),
    ],
)
def test_text_never_chooses_an_attribute_of_a_csi_volume(attributes, path):
    csi = {"driver": "file.csi.example", "volumeAttributes": attributes}
    (message,) = rendered(blueprint({"volumes": [volume(csi=csi)]}, TEXT)).violations
    where = "formation.cells[0].spec.podTemplate.spec.volumes[0].csi.volumeAttributes"
    assert message.startswith(f"{where}{path}: ")
    assert message.endswith(CSI_TEXT)


def test_text_never_chooses_the_secret_that_publishes_a_csi_volume():
    csi = {"driver": "file.csi.example", "nodePublishSecretRef": {"name": "{{ which }}"}}
    (message,) = rendered(blueprint({"volumes": [volume(csi=csi)]}, TEXT)).violations
    assert "csi.nodePublishSecretRef.name: " in message


def test_a_literal_attribute_of_a_csi_volume_permits_no_secret_of_that_name():
    pod = {
        "volumes": [
            volume("a", csi={"driver": "d", "volumeAttributes": {"server": "db"}}),
            volume("b", secret={"secretName": "{{ which }}"}),
        ]
    }
    (message,) = rendered(blueprint(pod, TEXT)).violations
    assert ".volumes[1].secret.secretName: " in message


def test_literals_and_secret_parameters_are_attributes_of_csi_volumes():
    attributes = {"server": "files", "secretName": "{{ login.name }}"}
    pod = {"volumes": [volume(csi={"driver": "d", "volumeAttributes": attributes})]}
    result = rendered(blueprint(pod, SECRET), login={"name": "mine", "key": "k"})
    assert isinstance(result, Rendered)
    (mounted,) = result.formation_spec["cells"][0]["spec"]["podTemplate"]["spec"]["volumes"]
    assert mounted["csi"]["volumeAttributes"] == {"server": "files", "secretName": "mine"}


def test_an_object_parameter_cannot_bring_a_secret_along():
    template = blueprint({"volumes": "{{ list }}"}, {"name": "list", "type": "array"})
    result = rendered(template, list=[volume(secret={"secretName": "other"})])
    assert '"other" is the name of a Secret from text' in result.violations[0]


def test_a_literal_and_a_secret_parameter_name_secrets():
    template = blueprint(
        {
            "volumes": [
                volume("a", secret={"secretName": "fixed"}),
                volume("b", secret={"secretName": "{{ login.name }}"}),
            ]
        },
        SECRET,
    )
    result = rendered(template, login={"name": "mine", "key": "k"})
    assert isinstance(result, Rendered)
    pod = result.formation_spec["cells"][0]["spec"]["podTemplate"]["spec"]
    assert pod["volumes"][1] == {"name": "b", "secret": {"secretName": "mine"}}


@pytest.mark.parametrize(("fields", "message"), [*UNREADABLE.values(), *BROKEN.values()])
def test_a_template_is_refused_with_the_words_for_a_cell(fields, message):
    template = {"formation": {"cells": [{"name": "a", "spec": spec(**fields)}]}}
    report = blueprint_rendering.compile_blueprint(template)
    assert f"formation.cells[0].spec.{message}" in report.message


def test_a_diff_names_the_pod_field_that_changed():
    old = TemplateSpec.from_dict(blueprint({"volumes": [volume()]}))
    new = TemplateSpec.from_dict(
        blueprint({"volumes": [volume(emptyDir={"sizeLimit": "1Gi"}), volume("more")]})
    )
    changes = compatibility.compare(old, new).changes
    where = "formation.cells[a].spec.podTemplate.spec.volumes"
    assert changes == f"{where}[data].emptyDir.sizeLimit was added; {where}[more] was added"


names = st.from_regex(r"[a-z]([a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(name=names, size=st.integers(1, 999), selector=st.dictionaries(names, names, max_size=3))
def test_pod_fields_from_parameters_render_as_they_are_written(name, size, selector):
    template = blueprint(
        {
            "volumes": [{"name": "{{ name }}", "emptyDir": {"sizeLimit": "{{ size }}Mi"}}],
            "nodeSelector": "{{ selector }}",
        },
        {"name": "name", "type": "string"},
        {"name": "size", "type": "integer"},
        {"name": "selector", "type": "object"},
        container={"volumeMounts": [{"name": "{{ name }}", "mountPath": "/data"}]},
    )
    result = rendered(template, name=f"v{name}", size=size, selector=selector)
    assert isinstance(result, Rendered)
    cell = result.formation_spec["cells"][0]["spec"]
    assert cell["podTemplate"]["spec"] == {
        "volumes": [{"name": f"v{name}", "emptyDir": {"sizeLimit": f"{size}Mi"}}],
        "nodeSelector": selector,
    }
    assert cell["container"]["volumeMounts"] == [{"name": f"v{name}", "mountPath": "/data"}]


@given(secret=names, literal=names)
def test_only_literals_and_secret_parameters_choose_secrets(secret, literal):
    template = blueprint(
        {"volumes": [volume("a", secret={"secretName": literal}), volume("b", secret="{{ any }}")]},
        {"name": "any", "type": "object"},
    )
    result = rendered(template, any={"secretName": secret})
    assert isinstance(result, Rendered) == (secret == literal)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=3),
)


@given(
    field=st.sampled_from(["volumes", "affinity", "tolerations", "initContainers"]),
    value=json_values,
)
def test_any_value_is_accepted_or_refused_with_words(field, value):
    violations = list(pod_schema.violations(pod_schema.field_schema(f"pod.{field}"), value))
    assert all(violation.message for violation in violations)
    json.dumps(value)


def test_a_sidecar_leaves_the_port_of_an_agent_free():
    mind = {"provider": "openai", "model": "m", "systemPrompt": "help"}
    sidecar = {"name": "s", "image": "i", "ports": [{"containerPort": 8080}]}
    pod = {"spec": {"initContainers": [sidecar]}}
    cell = CellTemplateSpec.from_dict({"mode": "Service", "mind": mind, "podTemplate": pod})
    (violation,) = forbidden_pod_fields.violations(cell)
    assert violation.message.startswith("8080 is a port of the cell")


def with_server(secret, *parameters):
    header = {"name": "Authorization", "secret": secret, "key": "token"}
    server = {"name": "mcp", "config": {"url": "http://cluster/mcp", "headersFrom": [header]}}
    mind = {"provider": "openai", "model": "m", "systemPrompt": "help"}
    cell = {"name": "a", "spec": {"mind": mind, "tools": [server]}}
    return {"parameters": list(parameters), "formation": {"cells": [cell]}}


def test_text_never_chooses_the_secret_of_a_header_for_an_mcp_server():
    (message,) = rendered(with_server("{{ which }}", TEXT)).violations
    path = "formation.cells[0].spec.tools[0].config.headersFrom[0].secret"
    assert message.startswith(f'{path}: "db" is the name of a Secret from text')


@pytest.mark.parametrize("secret", ["fixed", "{{ login.name }}"])
def test_literals_and_secret_parameters_are_headers_of_mcp_servers(secret):
    result = rendered(with_server(secret, SECRET), login={"name": "mine", "key": "k"})
    assert isinstance(result, Rendered)
