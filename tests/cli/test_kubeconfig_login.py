"""Logins are read from kubeconfigs as kubectl reads them."""

import base64
import json
import os
import pty
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kais_cli import errors, settings
from kais_cli.cluster import kubeconfig_login

NAME = ((("commonName", "cluster"),),)
AUTHORITY = """-----BEGIN CERTIFICATE-----
MIIBfDCCASGgAwIBAgIUA+xXIxQcW3jBMB6u0Qf38se4fZ0wCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHY2x1c3RlcjAgFw0yNjExMjMxMzEwMzdaGA8yMTI2MTAzMDEz
MTAzN1owEjEQMA4GA1UEAwwHY2x1c3RlcjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABCEbmJJJh6mzRz5ZXxSor/u4+pmSAZRGIrEAQX8LeYq+qNCTdiwnqa5A5nhb
eOiJdOfh4ya6OS9chYBWDa6jxXqjUzBRMB0GA1UdDgQWBBSwS7Hvd2ZPRttxIfsS
fdLEgWBi/zAfBgNVHSMEGDAWgBSwS7Hvd2ZPRttxIfsSfdLEgWBi/zAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDm1PbmuqSxybvllmEhyMidMf5Z
o2PexFnLJaflyJqScgIhAIAJfRb8r6WhDLFrMovEdf2+9gG4svkeWa8neB9vFMQu
-----END CERTIFICATE-----
"""
"""The certificate of an authority of this name; nothing is ever verified with it."""


def write(path: Path, *, user=None, cluster=None, contexts=("demo",), current="demo") -> Path:
    content = {
        "current-context": current,
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": f"of-{name}"}}
            for name in contexts
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://10.0.0.1:6443"} | (cluster or {})}
        ],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def program(tmp_path: Path, output: str) -> str:
    path = tmp_path / "login"
    path.write_text(f"#!/bin/sh\n{output}\n")
    path.chmod(0o755)
    return "./login"


def exec_user(command: str, **fields) -> dict:
    version = "client.authentication.k8s.io/v1"
    variables = [{"name": "A", "value": "x"}]
    return {"exec": {"apiVersion": version, "command": command, "env": variables} | fields}


PRINT_INFO = """printf '%s' "$KUBERNETES_EXEC_INFO" > info; cat > input
printf '{"status": {"token": "x"}}'"""
"""A login program that saves what it is given beside the test, and returns a token."""


def test_the_current_context_names_server_namespace_and_token(tmp_path):
    file = write(tmp_path / "config", user={"token": "secret"})
    login = kubeconfig_login.read(str(file))
    assert (login.server, login.namespace, login.token) == (
        "https://10.0.0.1:6443", "of-demo", "secret",
    )  # fmt: skip
    assert login.source == f"context demo in {file}"


def test_a_missing_context_is_answered_with_those_that_exist(tmp_path):
    file = write(tmp_path / "config", contexts=("demo", "test"))
    with pytest.raises(errors.Unreachable, match=r"no context prod in .*; it has demo, test"):
        kubeconfig_login.read(str(file), context="prod")


def test_a_context_may_lie_in_the_second_of_two_files(tmp_path):
    first = write(tmp_path / "first")
    second = write(tmp_path / "second", contexts=("other",), current="other")
    paths = os.pathsep.join([str(tmp_path / "none"), str(first), str(second)])
    assert kubeconfig_login.read(paths).namespace == "of-demo"
    assert kubeconfig_login.read(paths, context="other").namespace == "of-other"


def test_a_token_file_is_read_from_the_folder_of_the_kubeconfig(tmp_path):
    (tmp_path / "token").write_text("of-a-file\n")
    file = write(tmp_path / "config", user={"tokenFile": "token"})
    assert kubeconfig_login.read(str(file)).token == "of-a-file"  # noqa: S105 (of this test)


def test_a_login_program_gives_the_token(tmp_path):
    command = program(tmp_path, """printf '{"status": {"token": "%s"}}' "$A" """)
    file = write(tmp_path / "config", user=exec_user(command))
    assert kubeconfig_login.read(str(file)).token == "x"  # noqa: S105 (of this test)


def test_a_login_program_that_fails_is_named_without_its_arguments(tmp_path):
    user = exec_user(program(tmp_path, "exit 3"), args=["--client-secret", "hunter2"])
    file = write(tmp_path / "config", user=user)
    with pytest.raises(
        errors.Unreachable, match=r"the login program .*/login failed: exit status 3;"
    ) as failure:
        kubeconfig_login.read(str(file))
    assert "hunter2" not in str(failure.value)


def test_a_login_program_that_does_not_exist_is_named(tmp_path):
    file = write(tmp_path / "config", user=exec_user("./none"))
    with pytest.raises(errors.Unreachable, match=r"/none failed: No such file or directory;"):
        kubeconfig_login.read(str(file))


def test_a_login_program_without_a_terminal_gets_no_input_and_is_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cluster = {
        "certificate-authority-data": base64.b64encode(AUTHORITY.encode()).decode(),
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
        ],
    }
    user = exec_user(program(tmp_path, PRINT_INFO), provideClusterInfo=True)
    kubeconfig_login.read(str(write(tmp_path / "config", user=user, cluster=cluster)))
    assert json.loads((tmp_path / "info").read_text())["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://10.0.0.1:6443",
            "certificate-authority-data": cluster["certificate-authority-data"],
            "config": {"audience": "a"},
        },
    }
    assert (tmp_path / "input").read_text() == ""


@pytest.mark.parametrize(("mode", "is_interactive"), [("IfAvailable", True), ("Never", False)])
def test_a_login_program_uses_the_terminal_unless_it_never_asks(tmp_path, mode, is_interactive):
    command = program(tmp_path, PRINT_INFO.replace("; cat > input", ""))
    file = write(tmp_path / "config", user=exec_user(command, interactiveMode=mode))
    code = f"from kais_cli.cluster import kubeconfig_login as k; k.read({str(file)!r})"
    controller, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stdin=terminal, cwd=tmp_path, check=True)
    os.close(controller)
    os.close(terminal)
    assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": is_interactive}


def test_a_login_program_that_always_asks_is_refused_without_a_terminal(tmp_path):
    user = exec_user(program(tmp_path, PRINT_INFO), interactiveMode="Always")
    file = write(tmp_path / "config", user=user)
    with pytest.raises(errors.Unreachable, match=r"login requires a terminal;"):
        kubeconfig_login.read(str(file))


def test_a_user_who_acts_as_another_one_does_so_in_every_request(tmp_path):
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["devs", "ops"],
        "as-user-extra": {"scopes": ["a", "b"], "example.com/Reason": ["test"]},
    }
    login = kubeconfig_login.read(str(write(tmp_path / "config", user=user)))
    assert login.headers == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "devs"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2FReason", "test"),
        ("Impersonate-Extra-scopes", "a"),
        ("Impersonate-Extra-scopes", "b"),
    ]


def test_groups_of_no_user_are_refused(tmp_path):
    file = write(tmp_path / "config", user={"as-groups": ["system:masters"]})
    with pytest.raises(errors.Unreachable, match="as-groups and as-user-extra require as"):
        kubeconfig_login.read(str(file))


def test_without_a_current_context_one_must_be_named(tmp_path):
    file = write(tmp_path / "config", contexts=("prod", "test"), current="")
    with pytest.raises(
        errors.Unreachable, match=r"has no current context; name one with --context: prod, test$"
    ):
        kubeconfig_login.read(str(file))
    assert kubeconfig_login.read(str(file), context="test").namespace == "of-test"


def test_a_cluster_without_verification_is_not_verified(tmp_path):
    file = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})
    verification = kubeconfig_login.read(str(file)).verification
    assert isinstance(verification, ssl.SSLContext)
    assert verification.verify_mode is ssl.CERT_NONE


def test_a_text_does_not_turn_verification_off(tmp_path):
    file = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": "false"})
    with pytest.raises(errors.Unreachable, match="must be true or false, without quotation marks"):
        kubeconfig_login.read(str(file))


def test_without_an_authority_those_of_the_system_are_trusted(tmp_path, monkeypatch):
    (tmp_path / "ca.pem").write_text(AUTHORITY)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    verification = kubeconfig_login.read(str(write(tmp_path / "config"))).verification
    assert [entry["subject"] for entry in verification.get_ca_certs()] == [NAME]
    assert verification.verify_mode is ssl.CERT_REQUIRED


def test_a_pod_trusts_its_authority_as_a_kubeconfig_does(tmp_path, monkeypatch):
    for name, content in {"token": "t", "namespace": "team", "ca.crt": AUTHORITY}.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(kubeconfig_login, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    login = kubeconfig_login.read(None)
    assert (login.namespace, login.token) == ("team", "t")
    assert [entry["subject"] for entry in login.verification.get_ca_certs()] == [NAME]
    # Python 3.13 adds it to its default contexts; many authorities of clusters do not comply.
    assert not login.verification.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("proxy", ["ftp://p:1", "p:1", "http://", "socks5://u:hunter2@p:port"])
def test_a_proxy_that_is_no_address_is_refused_without_its_password(tmp_path, proxy):
    file = write(tmp_path / "config", cluster={"proxy-url": proxy})
    with pytest.raises(
        errors.Unreachable, match="proxy-url is not a URL of http, https"
    ) as failure:
        kubeconfig_login.read(str(file))
    assert "hunter2" not in str(failure.value)


def test_a_kubeconfig_that_is_no_yaml_is_reported_by_line_without_its_text(tmp_path):
    file = tmp_path / "config"
    file.write_text("users:\n- user: {token: hunter2\n  x: [}\n")
    with pytest.raises(errors.Unreachable, match=r"cannot be read: .*, line 3;") as failure:
        kubeconfig_login.read(str(file))
    assert "hunter2" not in str(failure.value)


def test_an_authority_that_is_no_certificate_is_reported_with_the_file(tmp_path):
    data = base64.b64encode(b"nonsense").decode()
    file = write(tmp_path / "config", cluster={"certificate-authority-data": data})
    with pytest.raises(errors.Unreachable, match=f"the kubeconfig {file} is not valid"):
        kubeconfig_login.read(str(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "cannot be read"),
        ("just a text", "is not a mapping"),
        ("{current-context: x, contexts: [{name: x, context: {user: u}}]}", "'cluster' is missing"),
        ("{}", "has no context"),
    ],
)
def test_a_broken_kubeconfig_says_what_is_wrong_and_how_to_name_another(tmp_path, content, message):
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(errors.Unreachable, match=message) as failure:
        kubeconfig_login.read(str(file))
    assert str(file) in str(failure.value)
    assert "--kubeconfig" in str(failure.value)
    assert "kais cluster up" in str(failure.value)


def test_a_pod_finds_the_api_server_by_the_variables_of_the_kubelet():
    variables = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert settings.api_server_of_pod(variables) == "https://[fd00::1]:6443"
