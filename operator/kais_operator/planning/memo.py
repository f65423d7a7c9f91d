"""Caches recent results of pure functions, because an object is decided several times in a row.

All callers share a result, so it must be immutable or only read.
"""

from __future__ import annotations

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

from msgspec import json

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
P = ParamSpec("P")
_DIGEST_BYTES = 16


class RecentResults(Generic[K, R]):
    """The results that were used last, by their keys; at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[K, R] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: K, compute: Callable[[], R]) -> R:
        """Return the result for a key; an error of `compute` is raised again each time."""
        if key in self._results:
            self._results.move_to_end(key)
            return self._results[key]
        result = compute()
        self._results[key] = result
        if len(self._results) > self._capacity:
            self._results.popitem(last=False)
        return result


def digest(tree: Any) -> bytes:
    """Return a key for a JSON tree: trees with different contents have different keys.

    It takes a tenth of the time of `names.spec_hash`, but depends on the order of keys.
    """
    return hashlib.blake2b(json.encode(tree), digest_size=_DIGEST_BYTES).digest()


def by_identity(*, capacity: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function by the identity of its arguments, which must be immutable.

    This is for models that take long to compare, such as the Cell that a reconcile reads. Strings,
    such as a UID, are compared by value, because each read creates new ones. Pass each argument in
    the same way in every call, by position or by name.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        # The arguments are kept with their result, so no other object can take their identity.
        results: RecentResults[tuple[object, ...], tuple[object, R]] = RecentResults(capacity)

        @functools.wraps(function)
        def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
            key = (
                *map(_argument_key, args),
                *((name, _argument_key(value)) for name, value in kwargs.items()),
            )
            return results.get(key, lambda: ((args, kwargs), function(*args, **kwargs)))[1]

        return remembered

    return decorate


def _argument_key(argument: object) -> str | int:
    return argument if type(argument) is str else id(argument)
