"""Reads the answer of a model that extracts facts. Pure; the answer is untrusted input."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kais import facts as kais_facts
from knowledge_service.domain import extraction_prompt

_MAX_FACTS = 50  # an answer with more is no list of three to seven
_MAX_PROBLEMS = 3
Form = TypeVar("Form", bound=BaseModel)
_Text = Annotated[str, StringConstraints(strip_whitespace=True)]
_Tag = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=kais_facts.LIMITS.tag),
]


class MalformedAnswer(ValueError):
    """The answer is not valid JSON of the schema; the message says where."""


class DrawnFact(BaseModel):
    """A fact as the model states it, with the `seq` of the episodes that it names."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    content: Annotated[_Text, Field(min_length=1, max_length=1000)]
    kind: str
    confidence: float = Field(ge=0, le=1)
    tags: list[_Tag] = Field(default=[], max_length=16)
    episodes: list[int] = Field(max_length=100)
    subject: Annotated[_Text, Field(max_length=kais_facts.LIMITS.key)] | None = None
    predicate: Annotated[_Text, Field(max_length=kais_facts.LIMITS.key)] | None = None

    @property
    def bounded_confidence(self) -> float:
        """The confidence, of which a model may claim no more than `MAX_CONFIDENCE`."""
        return min(self.confidence, extraction_prompt.MAX_CONFIDENCE)

    @property
    def known_kind(self) -> str:
        """The kind; `fact` if the model invented one."""
        return self.kind if self.kind in extraction_prompt.KINDS else kais_facts.Kind.FACT


class _Answer(BaseModel):
    facts: list[DrawnFact] = Field(max_length=_MAX_FACTS)


def parse(text: str) -> tuple[DrawnFact, ...]:
    """Read the facts of an answer.

    Raises:
        MalformedAnswer: the text is not such JSON.
    """
    return tuple(read_json(_Answer, text).facts)


def read_json(form: type[Form], text: str) -> Form:
    """Read an answer as JSON of a form.

    Raises:
        MalformedAnswer: the text is not such JSON.
    """
    try:
        return form.model_validate_json(text)
    except ValidationError as exc:
        raise MalformedAnswer(_problems(exc)) from exc


def _problems(exc: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, error['loc'])) or 'the text'}: {error['msg']}"
        for error in exc.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "; ".join(problems[:_MAX_PROBLEMS])
