"""Maps every failure of a call to the API server to an error of the commands."""

from __future__ import annotations

import ssl

import httpx

from kais_cli import errors
from kais_cli.cluster.api_client import ResponseError, TooDeep

API_ERRORS = (ResponseError, httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError)
"""Everything that a call to the API server can raise."""

_UNAUTHORIZED = 401
_SERVER_FAULT = 500


def translate(
    failure: Exception, operation: str, *, server: str = "the API server"
) -> errors.CliError:
    """Describe the failure of `operation`, such as `get Mission/demo/x`, and the next step."""
    if isinstance(failure, ResponseError):
        return _from_response(failure, operation)
    if isinstance(failure, httpx.TimeoutException):
        return unreachable("no answer in time", operation, server=server)
    return unreachable(str(failure) or type(failure).__name__, operation, server=server)


def unreachable(detail: str, operation: str, *, server: str) -> errors.Unreachable:
    """Report that a server does not answer."""
    return errors.Unreachable(
        f"{operation}: {server} does not answer ({detail});"
        " check --kubeconfig and --context, or that the cluster is up"
    )


def from_status(status: int, operation: str) -> errors.Unreachable | None:
    """Explain a rejected login or a failure of the server; None for other statuses."""
    if status == _UNAUTHORIZED:
        return errors.Unreachable(
            f"{operation}: the login is not accepted; renew it, then try again"
        )
    if status >= _SERVER_FAULT:
        return errors.Unreachable(f"{operation}: the API server answers {status}; try again later")
    return None


def is_missing(failure: ResponseError) -> bool:
    """Whether the API server knows the kind but not the object."""
    return failure.status_code == httpx.codes.NOT_FOUND and failure.body is not None


def _from_response(failure: ResponseError, operation: str) -> errors.CliError:
    of_server = from_status(failure.status_code, operation)
    if of_server is not None:
        return of_server
    if isinstance(failure, TooDeep):
        return errors.TooDeep(f"{operation}: {failure}")
    if failure.status_code == httpx.codes.NOT_FOUND and failure.body is None:
        return errors.UnknownKind(
            f"{operation}: the cluster does not know this kind;"
            " install the charts kais-crds and kais; `kais doctor` prints the commands"
        )
    return errors.Refused(f"{operation}: {failure}{_role_hint(failure, operation)}")


_READING = ("get", "list", "watch")


def _role_hint(failure: ResponseError, operation: str) -> str:
    """Name the role that allows an operation on objects of kais; empty for other refusals."""
    is_about_kais = failure.status_code == httpx.codes.FORBIDDEN and ".kais.io" in str(failure)
    role = "view" if operation.partition(" ")[0] in _READING else "edit"
    hint = f"; the ClusterRole {role}, bound to you in the namespace, allows it"
    return hint if is_about_kais else ""
