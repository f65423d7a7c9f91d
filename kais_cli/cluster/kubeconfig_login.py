"""The server and the credentials of a kubeconfig's context, as kubectl reads them.

Without a kubeconfig, a pod uses the ServiceAccount that is mounted into it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kais_cli import errors, settings

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT_FILE = "~/.kube/config"
_UNSUPPORTED_EXEC = "client.authentication.k8s.io/v1alpha1"
_EXEC_CLUSTER_CONFIG = "client.authentication.k8s.io/exec"
"""The extension of a cluster whose content a login program gets as `spec.cluster.config`."""
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser, where it is installed


@dataclass(frozen=True)
class Login:
    """The address of an API server, and the credentials for it.

    Attributes:
        source: The context and the file that name the server, for messages.
        impersonation: The headers, names and values, that name the user to act as.
    """

    source: str
    server: str
    namespace: str
    verification: ssl.SSLContext
    token: str | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    tls_server_name: str | None = None
    proxy: str | None = None

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers of every request; `Impersonate-Group` may repeat."""
        authorization = [("Authorization", f"Bearer {self.token}")] if self.token else []
        return [*authorization, *self.impersonation]


def read(kubeconfig: str | None, *, context: str | None = None, may_prompt: bool = True) -> Login:
    """Read the login of a context, by default the current one; run its login program, if any.

    The program gets the terminal if there is one and `may_prompt` is true.

    Raises:
        Unreachable: There is no such context, its entries are incomplete, or the program fails.
    """
    paths = _paths(kubeconfig)
    files = [_read_file(path) for path in paths if path.is_file()]
    if not files and not kubeconfig and (SERVICE_ACCOUNT / "token").exists():
        try:
            return _service_account()
        except OSError as exc:
            reason = _describe(exc)
            raise _unusable(f"the ServiceAccount of this pod cannot be read: {reason}") from exc
    if not files:
        raise _unusable(f"the kubeconfig {paths[0]} does not exist")
    try:
        return _of_context(files, context, may_prompt=may_prompt)
    except (KeyError, TypeError, AttributeError, ValueError, OSError) as exc:
        listed = ", ".join(str(path) for path in paths)
        raise _unusable(f"the kubeconfig {listed} is not valid: {_describe(exc)}") from exc


def contexts(kubeconfig: str | None) -> list[str]:
    """Return the names of all contexts.

    Raises:
        Unreachable: A file cannot be read.
    """
    return _names([_read_file(path) for path in _paths(kubeconfig) if path.is_file()])


def _paths(kubeconfig: str | None) -> list[Path]:
    return [Path(path).expanduser() for path in (kubeconfig or _DEFAULT_FILE).split(os.pathsep)]


@dataclass(frozen=True)
class _File:
    """One kubeconfig; relative paths in it start at its folder."""

    path: Path
    content: Mapping[str, Any]

    def entry(self, kind: str, name: str) -> Mapping[str, Any] | None:
        """Return the named entry of `clusters`, `users` or `contexts`."""
        field = kind.removesuffix("s")
        entries = self.content.get(kind) or []
        return next((e.get(field) or {} for e in entries if e.get("name") == name), None)


def _read_file(path: Path) -> _File:
    try:
        content = yaml.load(path.read_text("utf-8"), Loader=_YAML_LOADER)  # noqa: S506 (a safe one)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise _unusable(f"the kubeconfig {path} cannot be read: {_describe(exc)}") from exc
    if content is not None and not isinstance(content, Mapping):
        raise _unusable(f"the kubeconfig {path} is not a mapping")
    return _File(path, content or {})


def _of_context(files: Sequence[_File], context: str | None, *, may_prompt: bool) -> Login:
    """Return the login of a context; of entries with one name, the first one counts."""
    current = next(filter(None, (file.content.get("current-context") for file in files)), None)
    names = _names(files)
    if not names:
        raise _unusable(f"the kubeconfig {files[0].path} has no context")
    name = context or current
    if not name:
        raise errors.Unreachable(
            f"the kubeconfig {files[0].path} has no current context; name one with --context:"
            f" {', '.join(names)}"
        )
    file, body = _entry(files, "contexts", name, names)
    cluster_file, cluster = _entry(files, "clusters", body["cluster"])
    user_file, user = _entry(files, "users", body["user"]) if body.get("user") else (file, {})
    authorities = _pem(cluster, "certificate-authority", cluster_file.path.parent)
    if "exec" in user:
        program = _LoginProgram(user["exec"], folder=user_file.path.parent)
        credentials = program.run(_exec_cluster(cluster, authorities), may_prompt=may_prompt)
        user = {**user, **credentials}
    return Login(
        source=f"context {name} in {file.path}",
        server=str(cluster["server"]).rstrip("/"),
        namespace=str(body.get("namespace") or "default"),
        token=_token(user, user_file.path.parent),
        impersonation=tuple(_impersonation(user)),
        verification=_verification(
            authorities,
            certificate=_pem(user, "client-certificate", user_file.path.parent),
            key=_pem(user, "client-key", user_file.path.parent),
            is_insecure=_is_insecure(cluster),
        ),
        tls_server_name=cluster.get("tls-server-name"),
        proxy=_proxy(cluster),
    )


def _names(files: Sequence[_File]) -> list[str]:
    return [str(entry["name"]) for file in files for entry in file.content.get("contexts") or []]


def _entry(
    files: Sequence[_File], kind: str, name: str, names: Sequence[str] = ()
) -> tuple[_File, Mapping[str, Any]]:
    for file in files:
        entry = file.entry(kind, name)
        if entry is not None:
            return file, entry
    listed = f"; it has {', '.join(names)}" if names else ""
    raise _unusable(f"no {kind.removesuffix('s')} {name} in {files[0].path}{listed}")


def _token(user: Mapping[str, Any], folder: Path) -> str | None:
    if "username" in user or "password" in user:
        raise _unusable("Kubernetes accepts no user name and password since version 1.19")
    if "auth-provider" in user:
        return str(user["auth-provider"]["config"]["id-token"])
    if user.get("tokenFile"):
        return Path(folder, user["tokenFile"]).read_text("utf-8").strip()
    return str(user["token"]) if user.get("token") else None


def _impersonation(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the headers of a user who acts as another one, as client-go writes them."""
    name, uid = user.get("as"), user.get("as-uid")
    groups = user.get("as-groups") or []
    extra: Mapping[str, Sequence[str]] = user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise ValueError("as-uid, as-groups and as-user-extra require as, the name of a user")
        return
    yield "Impersonate-User", str(name)
    if uid:
        yield "Impersonate-Uid", str(uid)
    for group in groups:
        yield "Impersonate-Group", str(group)
    for key, values in extra.items():
        escaped = urllib.parse.quote(str(key), safe="!#$&'*+^`|")  # what a header's name may have
        for value in values:
            yield f"Impersonate-Extra-{escaped}", str(value)


def _proxy(cluster: Mapping[str, Any]) -> str | None:
    proxy = cluster.get("proxy-url")
    if not proxy:
        return None
    try:
        parts = urllib.parse.urlsplit(str(proxy))
        is_valid = parts.scheme in _PROXY_SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:  # the URL itself may contain a password
        raise ValueError(f"proxy-url is not a URL of {', '.join(_PROXY_SCHEMES)}")
    return str(proxy)


def _exec_cluster(cluster: Mapping[str, Any], authorities: str | None) -> dict[str, Any]:
    """Return the cluster as a login program gets it with `provideClusterInfo`."""
    fields = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    described = {field: cluster[field] for field in fields if cluster.get(field)}
    if authorities:
        described["certificate-authority-data"] = base64.b64encode(authorities.encode()).decode()
    for entry in cluster.get("extensions") or []:
        if entry["name"] == _EXEC_CLUSTER_CONFIG:
            described["config"] = entry["extension"]
    return described


class _LoginProgram:
    """A credential plugin, by the field `exec` of a user."""

    def __init__(self, fields: Mapping[str, Any], *, folder: Path) -> None:
        self._fields = fields
        self._version = fields.get("apiVersion")
        if self._version == _UNSUPPORTED_EXEC:
            raise _unusable(f"login programs of {self._version} are not supported")
        self._command = str(fields["command"])
        if os.sep in self._command:  # relative to the kubeconfig; a plain name is found in PATH
            self._command = str(folder / self._command)

    def run(self, cluster: Mapping[str, Any], *, may_prompt: bool) -> dict[str, str]:
        """Run the program; return its token or certificate as fields of a user."""
        mode = self._fields.get("interactiveMode")
        has_terminal = may_prompt and sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not has_terminal:
            raise _unusable(f"the login program {self._command} requires a terminal")
        status = self._status(cluster, is_interactive=has_terminal and mode != "Never")
        names = {
            "token": "token",
            "clientCertificateData": "client-certificate-data",
            "clientKeyData": "client-key-data",
        }
        credentials = {name: status[key] for key, name in names.items() if status.get(key)}
        if not credentials:
            raise self._failure("it returned neither a token nor a certificate")
        return credentials

    def _status(self, cluster: Mapping[str, Any], *, is_interactive: bool) -> Mapping[str, Any]:
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self._fields.get("provideClusterInfo"):
            spec["cluster"] = cluster
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}
        variables = {e["name"]: str(e["value"]) for e in self._fields.get("env") or []}
        variables["KUBERNETES_EXEC_INFO"] = json.dumps(info)
        arguments = [str(argument) for argument in self._fields.get("args") or []]
        try:
            output = subprocess.run(  # noqa: S603 (the user's own kubeconfig names it)
                [self._command, *arguments],
                env=settings.with_variables(variables),
                stdin=None if is_interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        except subprocess.CalledProcessError as exc:  # its text has the arguments: maybe secrets
            raise self._failure(f"exit status {exc.returncode}") from None
        except OSError as exc:
            raise self._failure(exc.strerror or type(exc).__name__) from exc
        try:
            status = json.loads(output)["status"]
        except (ValueError, KeyError, TypeError) as exc:
            raise self._failure("its output is not an ExecCredential with a status") from exc
        if not isinstance(status, Mapping):
            raise self._failure("its output is not an ExecCredential with a status")
        return status

    def _failure(self, reason: str) -> errors.Unreachable:
        return _unusable(f"the login program {self._command} failed: {reason}")


def _is_insecure(cluster: Mapping[str, Any]) -> bool:
    is_insecure = cluster.get("insecure-skip-tls-verify")
    if is_insecure is None or isinstance(is_insecure, bool):
        return bool(is_insecure)
    raise ValueError("insecure-skip-tls-verify must be true or false, without quotation marks")


def _verification(
    authorities: str | None,
    *,
    certificate: str | None = None,
    key: str | None = None,
    is_insecure: bool = False,
) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities, by default those of the system.

    `ssl.create_default_context` would set VERIFY_X509_STRICT from Python 3.13 on, which refuses
    the authorities of many clusters.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if is_insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif authorities:
        tls.load_verify_locations(cadata=authorities)
    else:
        tls.load_default_certs()
    if certificate and key:
        with tempfile.TemporaryDirectory(prefix="kais-") as folder:  # ssl reads files alone
            pair = Path(folder, "pair.pem")
            pair.touch(mode=0o600)
            pair.write_text(f"{certificate}\n{key}\n", "utf-8")
            tls.load_cert_chain(pair)
    return tls


def _pem(entry: Mapping[str, Any], field: str, folder: Path) -> str | None:
    """Return a PEM text that an entry contains, in base64, or names as a file."""
    inline = str(entry.get(f"{field}-data") or "")
    if inline:
        return inline if "-----" in inline else base64.b64decode(inline).decode()
    return Path(folder, entry[field]).read_text("utf-8") if entry.get(field) else None


def _service_account() -> Login:
    namespace = "default"
    with contextlib.suppress(OSError):
        namespace = (SERVICE_ACCOUNT / "namespace").read_text("utf-8").strip() or namespace
    return Login(
        source=f"the ServiceAccount in {SERVICE_ACCOUNT}",
        server=settings.api_server_of_pod(),
        namespace=namespace,
        token=(SERVICE_ACCOUNT / "token").read_text("utf-8").strip(),
        verification=_verification((SERVICE_ACCOUNT / "ca.crt").read_text("utf-8")),
    )


def _describe(failure: Exception) -> str:
    """Return the reason without the text of the file, which may contain secrets."""
    if isinstance(failure, KeyError):
        return f"{failure} is missing"
    if isinstance(failure, yaml.MarkedYAMLError) and failure.problem_mark is not None:
        return f"{failure.problem}, line {failure.problem_mark.line + 1}"
    if isinstance(failure, yaml.YAMLError):
        return "it is not YAML"
    return str(failure) or type(failure).__name__


def _unusable(reason: str) -> errors.Unreachable:
    return errors.Unreachable(
        f"{reason}; name a cluster with --kubeconfig, KUBECONFIG or --context, or start one with"
        " `kais cluster up`"
    )
