"""The sandbox in which template expressions run.

It extends Jinja's immutable sandbox: attributes must be on an explicit list, operators check the
size of their result first, all costs are counted, and every token has an offset, so that an error
can name line and column.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, Undefined
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import TokenStream
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kais.templates import filters, limits, metering
from kais.templates.limits import CapExceeded, Refused

_OPERAND_BITS = 1024  # fast to compute; the result is checked against INTEGER_BITS afterwards
RANGE_LIMIT = limits.LOOP_STEPS
_METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: frozenset(
        {
            "capitalize",
            "endswith",
            "lower",
            "lstrip",
            "rstrip",
            "split",
            "startswith",
            "strip",
            "title",
            "upper",
        }
    ),
    dict: frozenset({"get", "items", "keys", "values"}),
    LoopContext: frozenset(
        {"first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex"}
    ),
}


class _Sandbox(ImmutableSandboxedEnvironment):
    """An environment without loaders, whose line numbers are offsets into the leaf, from 1.

    Jinja records only lines. The line number of each token is replaced by its offset, so that
    errors have a location when a leaf is parsed or run; `line_and_column` converts an offset back.
    """

    intercepted_binops = frozenset({"*", "**", "+", "-", "/", "//", "%"})

    def __init__(self) -> None:
        super().__init__(
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            autoescape=False,
            optimized=False,
            cache_size=0,
            finalize=filters.text,
        )
        self.filters = filters.filters()
        self.tests = filters.tests()
        self.globals = {"range": bounded_range}

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        placed = _with_offsets(self.lexer.tokeniter(source, name, filename, state), source)
        placed = _limit_tokens(placed)
        return TokenStream(self.lexer.wrap(placed, name, filename), name, filename)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether an attribute is on the list of its object's type."""
        return any(attr in names for kind, names in _METHODS.items() if isinstance(obj, kind))

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether a template may call an object: the listed methods and the globals."""
        owner = getattr(obj, "__self__", None)
        name = getattr(obj, "__name__", "")
        return obj is bounded_range or self.is_safe_attribute(owner, name, obj)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a member; keys of the object come before methods of the same name."""
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        if self.is_safe_attribute(obj, attribute, None):
            return getattr(obj, attribute)
        if isinstance(obj, Undefined):
            str(obj)  # raises for a StrictUndefined, with its name
        if isinstance(obj, dict):
            return self.undefined(obj=obj, name=attribute)
        raise Refused(f"'{attribute}' of a {type(obj).__name__} is not for templates")

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item; attributes are never reached this way."""
        if isinstance(obj, Undefined):
            str(obj)
        if not isinstance(obj, dict | list | tuple | str):
            raise Refused(f"a {type(obj).__name__} has no items")
        if isinstance(argument, dict | list | tuple):
            raise Refused(f"a {type(argument).__name__} is not a key; use a text or a number")
        try:
            return obj[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Run an operator, unless its result would be huge.

        Raises:
            Refused: The result would be too large, or the operator is `%` on text.
        """
        for operand in (left, right):
            if isinstance(operand, int):
                _check_bits(operand.bit_length())
        if operator in _OPERATORS:
            _OPERATORS[operator](left, right)
        result = super().call_binop(context, operator, left, right)
        metering.spend_operator(context, left, right, result)
        if isinstance(result, int) and result.bit_length() > limits.INTEGER_BITS:
            raise Refused("the number is too large")
        return result


class Sandbox(_Sandbox):
    """The sandbox of templates: it counts the cost of each filter, test, method and operator."""

    def __init__(self) -> None:
        super().__init__()
        plain = _Sandbox()
        self.filters = metering.metered_filters(plain.filters, plain)
        self.tests = metering.metered_tests(plain.tests, plain)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - so that no keyword of a template collides
        """Call a function that the template may call, and count the cost."""
        if not __self.is_safe_callable(__obj):
            raise Refused("this is not a function for templates")
        return metering.call(__context, __obj, args, kwargs)


def bounded_range(*bounds: int) -> list[int]:
    """Return Python's range, limited to the loop steps of a rendering."""
    numbers = range(*bounds)
    if len(numbers) > RANGE_LIMIT:
        raise CapExceeded(f"range() gives at most {RANGE_LIMIT:,} numbers")
    return list(numbers)


def line_and_column(source: str, offset: int) -> tuple[int, int]:
    """Convert an offset, from 1, to line and column, both from 1."""
    prefix = source[: max(0, offset - 1)]
    return prefix.count("\n") + 1, len(prefix) - (prefix.rfind("\n") + 1) + 1


class LexError(Exception):
    """The lexer found an unexpected character or bracket; contains the offset."""

    def __init__(self, message: str, offset: int) -> None:
        self.offset = offset
        super().__init__(message)


def _with_offsets(
    tokens: Iterator[tuple[int, str, str]], source: str
) -> Iterator[tuple[int, str, str]]:
    """Yield the tokens with offsets as line numbers; the lexer may have dropped space before one.

    Raises:
        LexError: The lexer found an unexpected character or bracket.
    """
    at = 0
    while True:
        try:
            _, kind, value = next(tokens)
        except StopIteration:
            return
        except TemplateSyntaxError as exc:
            raise LexError(exc.message or "cannot be read", at + 1) from exc
        match = source.find(value, at)
        start = match if match >= 0 else at
        yield start + 1, kind, value
        at = start + len(value)


def _limit_tokens(tokens: Iterator[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the tokens of a leaf.

    Raises:
        Refused: The leaf has more tokens than can be parsed and compiled quickly.
    """
    for count, token in enumerate(tokens, start=1):
        if count > limits.LEAF_TOKENS:
            raise Refused(f"has more than {limits.LEAF_TOKENS:,} tokens")
        yield token


def _length_of(value: Any) -> int | None:
    return len(value) if isinstance(value, str | bytes | list | tuple) else None


def _check_multiply(left: Any, right: Any) -> None:
    for sequence, count in ((left, right), (right, left)):
        size = _length_of(sequence)
        if size is None or not isinstance(count, int):
            continue
        limit = limits.NODES if isinstance(sequence, list | tuple) else None
        if size * count > (limit or limits.OUTPUT_BYTES):
            raise Refused("the repetition is too large")
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())


def _check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * abs(right))


def _check_bits(bits: int) -> None:
    if bits > _OPERAND_BITS:
        raise Refused("the number is too large")


def _check_add(left: Any, right: Any) -> None:
    sizes = (_length_of(left), _length_of(right))
    if None in sizes:
        return
    limit = limits.NODES if isinstance(left, list | tuple) else None
    if sum(size or 0 for size in sizes) > (limit or limits.OUTPUT_BYTES):
        raise Refused("the sum is too long")


def _check_modulo(left: Any, right: Any) -> None:
    del right
    if isinstance(left, str | bytes):
        raise Refused("% does not format text here; write {{ }} or ~ instead")


_OPERATORS = {"*": _check_multiply, "**": _check_power, "+": _check_add, "%": _check_modulo}
