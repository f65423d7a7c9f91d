"""Makes the word vectors of recall: `python -m bench.recall vectors DIR`.

    documentation of seventeen projects -> paragraphs -> terms of the analyser
      -> which terms stand near which (positive pointwise mutual information)
      -> its strongest dimensions (singular vectors) -> a vector of small integers for each term

None of these projects is in the FAQs that judge recall, and no question of any set has a part in
the vectors. These have no sentence of the pages. `DIR` receives a clone of each repository; each
page is read at a fixed commit. The same machine makes the same bytes each time; another one may
round a few numbers otherwise.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.recall import markdown_pages
from knowledge_service.search.ranking import word_vectors
from knowledge_service.search.text import analyser

_TERMS, _DIMENSIONS = 5000, 100
# The distance at which two terms of a paragraph still stand near each other.
_WINDOW = 4
# Terms with a frequency of more than this count for less: a common weight of mean vectors.
_RARITY = 0.001
_MIN_WORDS, _MIN_TERMS = 5, 4
_UNWANTED = re.compile(
    r"(?i)(^|/)(zh|zh-cn|ja|es|fr|pt|pt-br|ko|ru|uk|bn|ro|cn|i18n|vendor)/|CHANGELOG"
)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """The documentation in a GitHub repository at a commit; `pages` are the wanted paths."""

    repository: str
    licence: str
    commit: str
    pages: str = ""


SOURCES = (
    Source(
        "kedacore/keda-docs", "Apache-2.0", "a55c5d345e2cbd9923ab4936f1cabc2a17e9abac",
        r"content/docs/2\.1[79]/|content/(blog|faq|troubleshooting)",
    ),
    Source(
        "open-telemetry/opentelemetry.io", "CC BY 4.0", "dd5997c8b9fafbf72ea6b8059ade242d88b8f118",
        "content/en/",
    ),
    Source("knative/docs", "CC BY 4.0", "de125bfad88b6f8f5ff037866a5436d64051898f"),
    Source(
        "MicrosoftDocs/azure-aks-docs", "CC BY 4.0", "fb060abe6a8fef960d4c487b543bf7b1e97808fe"
    ),
    Source("kubernetes/enhancements", "Apache-2.0", "64765b4b02389318f2113119dd9e491479f978a0"),
    Source(
        "rabbitmq/rabbitmq-website", "Apache-2.0", "0acf2a429b51aa35667af4369b8353317ebea524",
        "^docs/",  # the licence excludes the blog
    ),
    Source("thanos-io/thanos", "Apache-2.0", "e103a81bd5943697394afcb4fb592b6ffa806c30"),
    Source("dapr/docs", "CC BY 4.0", "0748da594aae03529034fd4aa1d10d96199df0c1"),
    Source("crossplane/docs", "CC BY 4.0", "56a4808efd1640ac39aa851c8adf17bacb6283c3"),
    Source("longhorn/website", "Apache-2.0", "0f622500d3b8233f6f160932851f7189e3f8ba0e"),
    Source("nats-io/nats.docs", "Apache-2.0", "98856081c8843d9fa238b3ea96e1f72d07f31113"),
    Source(
        "MicrosoftDocs/well-architected", "CC BY 4.0", "1353bbb66e53121b702a46baed0d64e1f6284bb5"
    ),
    Source(
        "PagerDuty/incident-response-docs", "Apache-2.0", "e8a6182e031ee14526e41eadc42f3b44aaa3397e"
    ),
    Source("alphagov/govuk-developer-docs", "MIT", "972d1b4410ffd165f2f3e889eda30bcf7d1cc6b3"),
    Source("influxdata/docs-v2", "MIT", "79332006271f9d416c054e22c1433f0a26c49c41"),
    Source(
        "openstack/nova", "Apache-2.0", "00a030403f672b975364c855b7d25b40ef83e757",
        "^doc/",
    ),
    Source(
        "strimzi/strimzi-kafka-operator", "Apache-2.0", "8541da1e336bdcda9647aeacfbc2048e57580a52"
    ),
)  # fmt: skip


def texts(folder: Path) -> Iterator[str]:
    """Yield the headings and paragraphs of all sources, each text once."""
    seen: set[str] = set()
    for source in SOURCES:
        wanted = re.compile(f"^(?=.*({source.pages})).*\\.(md|mdx|adoc|rst)$")
        for page in markdown_pages.pages(
            folder, source.repository, source.commit, wanted, _UNWANTED
        ):
            for text in _texts(page):
                if text.lower() not in seen and len(text.split()) >= _MIN_WORDS:
                    seen.add(text.lower())
                    yield text


def paragraphs(folder: Path) -> list[list[str]]:
    """Read the paragraphs of all sources as terms."""
    result = [terms_without_identifiers(text) for text in texts(folder)]
    return [terms for terms in result if len(terms) >= _MIN_TERMS]


def terms_without_identifiers(text: str) -> list[str]:
    """Return the terms of a text; an identifier contributes those of its parts alone."""
    tokens, _ = analyser.tokens(text)
    parts = chain.from_iterable(analyser.split_token(token)[1] for token in tokens)
    return [term for term in parts if is_word(term)]


def _texts(page: str) -> Iterator[str]:
    for heading, texts_below in markdown_pages.sections(page):
        yield heading
        yield from texts_below


def is_word(term: str) -> bool:
    """Return whether a term is a word: no identifier, date or number."""
    return not (term.startswith(("=", "d:")) or term.isdecimal())


def learn(folder: Path) -> tuple[bytes, bytes]:
    """Return the bytes of the list of terms and of their vectors."""
    term_lists = paragraphs(folder)
    counts = Counter(term for terms in term_lists for term in set(terms))
    ranked = sorted((-count, term) for term, count in counts.items() if len(term) > 1)
    terms = [term for _, term in ranked[:_TERMS]]
    information = _information(_nearness(term_lists, terms))
    # Rows are terms, and columns dimensions without their strengths: what is rare counts as much.
    vectors = np.linalg.eigh(information @ information.T)[1][:, -_DIMENSIONS:]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shares = np.array([counts[term] for term in terms]) / sum(counts.values())
    vectors *= (_RARITY / (_RARITY + shares))[:, np.newaxis]
    vectors -= _common(term_lists, terms, vectors)
    highest = word_vectors.HIGHEST
    numbers = np.rint(vectors * (highest / np.abs(vectors).max())).astype(np.int8)
    return _list_of(terms).encode(), numbers.tobytes()


def _nearness(term_lists: Sequence[Sequence[str]], terms: Sequence[str]) -> Floats:
    """Count which terms stand near which, nearer ones more."""
    number_of = {term: number for number, term in enumerate(terms)}
    flat: list[int] = []
    for text in term_lists:
        flat += [number_of.get(term, -1) for term in text]
        flat += [-1] * _WINDOW
    numbers, size = np.array(flat), len(terms)
    counts = np.zeros(size * size)
    for distance in range(1, _WINDOW + 1):
        first, second = numbers[:-distance], numbers[distance:]
        is_pair = (first >= 0) & (second >= 0) & (first != second)
        pairs = np.bincount(first[is_pair] * size + second[is_pair], minlength=size * size)
        counts += pairs * ((_WINDOW + 1 - distance) / _WINDOW)
    square = counts.reshape(size, size)
    return square + square.T


def _information(nearness: Floats) -> Floats:
    """Return the positive pointwise mutual information, with smoothed frequencies of contexts."""
    totals: Floats = nearness.sum(axis=1)
    contexts = totals**0.75
    expected = totals[:, np.newaxis] * (contexts / contexts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        information: Floats = np.nan_to_num(np.maximum(np.log(nearness / expected), 0.0))
    return information


def _common(term_lists: Sequence[Sequence[str]], terms: Sequence[str], vectors: Floats) -> Floats:
    """Return the part of each vector in the direction that the means of all texts share."""
    number_of = {term: number for number, term in enumerate(terms)}
    scatter = np.zeros((vectors.shape[1], vectors.shape[1]))
    for text in term_lists:
        mean = vectors[[number_of[term] for term in sorted(set(text)) if term in number_of]].sum(0)
        length = float(np.linalg.norm(mean))
        if length:
            scatter += np.outer(mean, mean) / length**2
    direction = np.linalg.eigh(scatter)[1][:, -1]
    return np.outer(vectors @ direction, direction)


def _list_of(terms: Sequence[str]) -> str:
    head = [
        "# The terms of word_vectors.bin, in the order of its rows, the most frequent first.",
        "#",
        "# Made by `python -m bench.recall vectors DIR` from statistics of these documents, which",
        "# word stands near which; no sentence of theirs is here:",
        *(f"# Source: github.com/{s.repository} at {s.commit}, {s.licence}" for s in SOURCES),
        "# The numbers are changed from these works: counted, projected and rounded.",
    ]
    return "\n".join([*head, *terms]) + "\n"


def write(folder: Path) -> Path:
    """Write the list of terms and their vectors into the package; return the path of the latter."""
    return write_files(*learn(folder), names=(word_vectors.TERMS_FILE, word_vectors.VECTORS_FILE))


def write_files(terms: bytes, vectors: bytes, *, names: tuple[str, str]) -> Path:
    """Write terms and vectors under these names into the package; return the path of the latter."""
    terms_path, vectors_path = (Path(word_vectors.__file__).parent / name for name in names)
    terms_path.write_bytes(terms)
    vectors_path.write_bytes(vectors)
    return vectors_path
