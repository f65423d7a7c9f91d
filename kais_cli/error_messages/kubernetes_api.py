"""Maps every exception of kr8s and httpx to an error of the commands; a test enumerates them."""

from __future__ import annotations

import ssl

import httpx
import httpx_ws
import kr8s

from kais_cli import errors

API_ERRORS = (
    kr8s.NotFoundError,
    kr8s.ConnectionClosedError,
    kr8s.APITimeoutError,
    kr8s.ExecError,
    kr8s.ServerError,
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx_ws.HTTPXWSException,
    ssl.SSLError,
    OSError,
)
"""Everything that a call to the API server can raise."""

KUBECONFIG_ERRORS = (ValueError, KeyError, TypeError, IndexError, RuntimeError)
"""Further errors that kr8s raises for an invalid kubeconfig, or for a login program in it."""

_UNAUTHORIZED = 401
_SERVER_FAULT = 500
_LOGIN_REJECTED = "the login is not accepted; renew it, then try again"


def translate(failure: Exception, operation: str) -> errors.CliError:
    """Describe the failure of `operation`, such as `get Mission/demo/x`, and the next step."""
    if isinstance(failure, kr8s.ServerError):
        return _from_response(failure, operation)
    if isinstance(failure, httpx_ws.WebSocketUpgradeError):
        return _from_upgrade_failure(failure.response.status_code, operation)
    if isinstance(failure, kr8s.NotFoundError):
        return errors.Refused(f"{operation}: {failure}")
    detail = str(failure) or type(failure).__name__
    return errors.Unreachable(
        f"{operation}: the API server does not answer ({detail});"
        " check --kubeconfig and --context, or that the cluster is up"
    )


def bad_kubeconfig(failure: Exception) -> errors.CliError:
    """Report that no cluster can be reached with the kubeconfig."""
    detail = str(failure) or type(failure).__name__
    return errors.Unreachable(
        f"no cluster to speak to ({detail}); name one with --kubeconfig or KUBECONFIG,"
        " or start one with `kais cluster up`"
    )


def is_missing(failure: kr8s.ServerError) -> bool:
    """Whether the API server knows the kind but not the object."""
    return _status(failure) == httpx.codes.NOT_FOUND and isinstance(failure.status, dict)


def _from_response(failure: kr8s.ServerError, operation: str) -> errors.CliError:
    status = _status(failure)
    if status == _UNAUTHORIZED:
        return errors.Unreachable(f"{operation}: {_LOGIN_REJECTED}")
    if status >= _SERVER_FAULT:
        return errors.Unreachable(f"{operation}: the API server answers {status}; try again later")
    if status == httpx.codes.NOT_FOUND and not isinstance(failure.status, dict):
        return errors.UnknownKind(
            f"{operation}: the cluster does not know this kind;"
            " install the charts kais-crds and kais"
        )
    return errors.Refused(f"{operation}: {failure}")


def _from_upgrade_failure(status: int, operation: str) -> errors.CliError:
    """Explain why the API server refused a WebSocket; the response body was not read."""
    if status == httpx.codes.FORBIDDEN:
        return errors.Refused(
            f"{operation}: forbidden; it requires the verbs get and create on pods/portforward,"
            " see `kais doctor`"
        )
    if status == _UNAUTHORIZED:
        return errors.Unreachable(f"{operation}: {_LOGIN_REJECTED}")
    if status >= _SERVER_FAULT:
        return errors.Unreachable(f"{operation}: the API server answers {status}; try again later")
    return errors.Refused(f"{operation}: the API server answers {status}")


def _status(failure: kr8s.ServerError) -> int:
    return failure.response.status_code if failure.response is not None else 0
