"""What the knowledge service, or the way to it, said no with: in words for a person, with advice.

The client's errors name method and path, which help whoever writes a program; here it is told what
happened, the stable code, and what to do next.
"""

from __future__ import annotations

import httpx

from kais import labels
from kais_cli import errors
from knowledge_client import errors as knowledge
from knowledge_client.codes import Code


def translate(
    failure: knowledge.KnowledgeError, *, namespace: str, url: str | None
) -> errors.CliError:
    """Choose the words and the exit status; `url` is that of KAIS_KNOWLEDGE_URL, if it is set."""
    if failure.problem is not None:
        return _refused(failure, namespace=namespace, is_direct=url is not None)
    return _no_answer(failure, url)


def _refused(
    failure: knowledge.KnowledgeError, *, namespace: str, is_direct: bool
) -> errors.CliError:
    said = _said(failure)
    if isinstance(failure, knowledge.PrincipalUnregistered):
        return errors.Refused(_unregistered(said, namespace, is_direct=is_direct))
    if isinstance(failure, knowledge.KnowledgeUnavailable):
        said = f"the knowledge service cannot answer now: {said}"
    if isinstance(failure, knowledge.UnexpectedAnswer):
        said = f"the knowledge service failed: {said}"
    advice = _advice(failure, is_direct=is_direct)
    kind = next((kind for cause, kind in _KINDS if isinstance(failure, cause)), errors.Refused)
    return kind("; ".join((said, advice)) if advice else said)


_KINDS: tuple[tuple[type[knowledge.KnowledgeError], type[errors.CliError]], ...] = (
    (knowledge.KnowledgeUnavailable, errors.Unreachable),
    (knowledge.InvalidRequest, errors.UsageError),
    (knowledge.TooLarge, errors.UsageError),
)
"""Every other error is a refusal."""


def _advice(failure: knowledge.KnowledgeError, *, is_direct: bool) -> str | None:
    """Say what to do next, where the service's own words do not."""
    if isinstance(failure, knowledge.TookTooLong):
        return "ask for less at once"
    if isinstance(failure, knowledge.KnowledgeUnavailable | knowledge.QuotaExceeded):
        after_s = failure.retry_after_s
        return f"try again in {after_s:.0f} s" if after_s else "try again later"
    if isinstance(failure, knowledge.UnexpectedAnswer):
        return "its log says why"
    if isinstance(failure, knowledge.Unauthenticated):
        renew = "KNOWLEDGE_TOKEN_FILE is to name a file with a token that this service takes"
        return renew if is_direct else "run it again, with another token"
    if failure.code == Code.SCOPE_FORBIDDEN:
        return "`kais knowledge stats` lists the scopes that you may see"
    return None


def _said(failure: knowledge.KnowledgeError) -> str:
    """Give the service's own account: what, every violation, and the code."""
    problem = failure.problem
    detail = problem.detail if problem else str(failure)
    wrong = "; ".join(f"{each.path}: {each.message}" for each in failure.violations)
    return f"{detail}{f': {wrong}' if wrong else ''} ({failure.code})"


def _unregistered(said: str, namespace: str, *, is_direct: bool) -> str:
    if is_direct:
        return f"{said}; the account of this token is to be registered first"
    return (
        f"ServiceAccount/{namespace}/{labels.USER_ACCOUNT} is not registered with the"
        f" knowledge service ({said}); the operator does that, check that it runs"
    )


def _no_answer(failure: knowledge.KnowledgeError, url: str | None) -> errors.CliError:
    where = f"{url} (KAIS_KNOWLEDGE_URL)" if url else "the forwarded port of the service's pod"
    cause = failure.__cause__
    why = str(cause) or type(cause).__name__
    if isinstance(cause, httpx.TimeoutException):
        return errors.Unreachable(
            f"no answer from {where} in time; the request may have succeeded;"
            " check before you retry"
        )
    if isinstance(failure, knowledge.KnowledgeUnavailable) and cause is not None:
        return errors.Unreachable(
            f"no answer from {where}: {why}; check that a knowledge service runs there"
        )
    if isinstance(failure, knowledge.InvalidRequest):
        address = "give an address such as http://127.0.0.1:8000"
        return errors.UsageError(f"{where} is not usable: {why}; {address}")
    if isinstance(failure, knowledge.Unauthenticated) and isinstance(cause, OSError | ValueError):
        return errors.UsageError(str(failure))
    words = f"{where} did not respond like a knowledge service; is a proxy in between? {failure}"
    is_away = isinstance(failure, knowledge.KnowledgeUnavailable)
    return errors.Unreachable(words) if is_away else errors.Refused(words)
