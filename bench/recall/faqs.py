"""Questions about operations by other projects: `python -m bench.recall faqs DIR`.

The questions are headings in the FAQ pages of thirteen projects that run on Kubernetes or beside
it; the paragraphs and list items below a heading answer it. Troubleshooting pages and runbooks of
these and other projects add facts that answer none. No word is of this project and no weight is
learned from them, so they judge what the thesaurus brings. The pages stay where they are: `DIR`
receives a clone of each repository, and each page is read at a fixed commit.

The projects have two halves. The first may be looked at while recall is changed.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.figures import table
from bench.recall import markdown_pages, marks, training
from bench.recall.evaluation import fts5
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn
from knowledge_service.search import thesaurus
from knowledge_service.search.query import expansion
from knowledge_service.search.thesaurus import Group
from knowledge_service.store.sqlite.store import SqliteStore

_MARKS = ("MRR", "first", "among 5", "among 10")
_HEAD = ("half", "questions", "finder", *_MARKS)
_LIMIT = 20


@dataclass(frozen=True)
class Repository:
    """Pages of a GitHub repository at a commit: those with questions, and others."""

    name: str
    commit: str
    faqs: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    symptoms: bool = False
    """Whether the headings name symptoms, and are no questions."""


REPOSITORIES = (
    Repository(
        "argoproj/argo-cd", "37ee0097cf851bc2dd7665fc081bbce61a7e836e",
        ("docs/faq.md",), ("docs/operator-manual/troubleshooting.md",),
    ),
    Repository(
        "aws/karpenter-provider-aws", "1d927085dd81a9df9301e613f371dac5b4d16bfe",
        ("website/content/en/docs/faq.md",), ("website/content/en/docs/troubleshooting.md",),
    ),
    Repository(
        "cert-manager/website", "776e5dba56510fc9de84206b806b568447077f25",
        ("content/docs/faq/README.md",),
        (
            "content/docs/troubleshooting/README.md", "content/docs/troubleshooting/acme.md",
            "content/docs/troubleshooting/webhook.md",
        ),
    ),
    Repository(
        "containers/podman", "c6580b4a5219c9efb9ab79a540637d8a58b736f8",
        ("troubleshooting.md",), symptoms=True,
    ),
    Repository(
        "etcd-io/website", "824597935df6e95992ef61c07e3222f4f796ca6c",
        ("content/en/docs/v3.8/faq.md",),
    ),
    Repository(
        "fluxcd/website", "6da0f383c3348b92f94ae5a90c4d2b59ec0144e8",
        (
            "content/en/flagger/faq.md", "content/en/flux/faq.md",
            "content/en/flux/migration/faq-migration.md",
        ),
    ),
    Repository(
        "helm/helm-www", "227f41447a683545325e87aedf10c67096d11004",
        (
            "versioned_docs/version-3/faq/installing.md",
            "versioned_docs/version-3/faq/troubleshooting.md",
            "versioned_docs/version-3/faq/uninstalling.md",
            "versioned_docs/version-3/faq/changes_since_helm2.md",
        ),
    ),
    Repository(
        "kubernetes/autoscaler", "55c37cd5eb550756c5ccc5a89e9068d77797e575",
        ("cluster-autoscaler/FAQ.md", "vertical-pod-autoscaler/docs/faq.md"),
    ),
    Repository(
        "kubernetes/ingress-nginx", "dbb11b92ddb77bee9c35e462479129354c84f939",
        ("docs/faq.md",), ("docs/troubleshooting.md",),
    ),
    Repository(
        "kubernetes/kops", "268927e26409f861634e18f3632c9dd483c350cf",
        others=("docs/operations/troubleshoot.md",),
    ),
    Repository(
        "kubernetes-sigs/external-dns", "2bf1bf8af2b70f23579f9147c1f7e9394f7f83d5",
        ("docs/faq.md",),
    ),
    Repository(
        "linkerd/website", "93f001753363bba09eafd81e290512f89f4697ed",
        ("linkerd.io/content/faq/_index.md",),
        ("linkerd.io/content/2.19/tasks/troubleshooting.md",),
    ),
    Repository(
        "prometheus/docs", "c105550aad07161f62d02e305ed09799ec6025fa",
        ("docs/introduction/faq.md",),
    ),
    Repository(
        "prometheus-operator/runbooks", "a685d14cf5128bb30e2bf935c3983decd772d885",
        others=("content/runbooks/",),
    ),
    Repository(
        "rook/rook", "d0c3b9ce6d64ff0c47074437aab7314b7adf7f2c",
        others=(
            "Documentation/Troubleshooting/ceph-common-issues.md",
            "Documentation/Troubleshooting/common-issues.md",
        ),
    ),
    Repository(
        "traefik/traefik", "fd5a576df2e8aeb0bfc8a96b6ef6e60a61f7ec0a",
        ("docs/content/getting-started/faq.md",),
    ),
    Repository(
        "vmware-tanzu/velero", "d30d389b56068eebd675d9953492183cb7b58a78",
        others=("site/content/docs/main/troubleshooting.md",),
    ),
)  # fmt: skip
_TUNING = frozenset({
    "argoproj/argo-cd", "containers/podman", "fluxcd/website", "kubernetes/autoscaler",
    "kubernetes/ingress-nginx", "kubernetes-sigs/external-dns", "traefik/traefik",
})  # fmt: skip


def read(folder: Path) -> tuple[Set, Set]:
    """Read the two halves of the questions, both over all facts; clone what is missing."""
    facts: dict[str, FactIn] = {}
    names: dict[str, str] = {}
    halves: tuple[list[Question], list[Question]] = ([], [])
    for repository in REPOSITORIES:
        questions = halves[repository.name not in _TUNING]
        for path in repository.faqs + repository.others:
            page = markdown_pages.page(folder, repository.name, repository.commit, path)
            for heading, paragraphs in markdown_pages.sections(page):
                for text in paragraphs:
                    names.setdefault(text.lower(), f"{repository.name} {len(facts)}")
                    facts.setdefault(names[text.lower()], FactIn(content=text))
                evidence = frozenset(names[text.lower()] for text in paragraphs)
                if evidence and path in repository.faqs and _asks(heading, repository):
                    number = f"{path} {len(questions)}"
                    questions.append(Question(number, repository.name, heading, evidence))
    return Set("tuning", facts, tuple(halves[0])), Set("judged", facts, tuple(halves[1]))


def _asks(heading: str, repository: Repository) -> bool:
    is_question = heading.endswith("?") or repository.symptoms
    return is_question and len(heading.split()) >= markdown_pages.MIN_WORDS


def run(folder: Path) -> str:
    """Compare recall with FTS5, with questions in lower case, and without related terms."""
    rows: list[list[object]] = []
    halves = read(folder)
    with tempfile.TemporaryDirectory() as temporary_folder:
        store = SqliteStore(Path(temporary_folder) / "k.db")
        try:
            names = training.remember(store, "realm:bench", halves[0].facts)
            for half in halves:
                find = fts5(half.facts)
                by_fts5 = [find(question)[:_LIMIT] for question in half.questions]
                rows.append(_row(half, "FTS5", by_fts5))
                rows.append(_row(half, "recall", _ask(store, names, half)))
                lower_case = replace(half, questions=tuple(map(_lower_case, half.questions)))
                rows.append(_row(half, "recall, in lower case", _ask(store, names, lower_case)))
                with thesaurus_of((), ()):
                    rows.append(_row(half, "without related terms", _ask(store, names, half)))
        finally:
            store.close()
    return table(_HEAD, rows)


def _lower_case(question: Question) -> Question:
    """Return the question as people type it: `configmap` for a ConfigMap."""
    return replace(question, text=question.text.lower())


def _ask(store: SqliteStore, names: Mapping[str, str], half: Set) -> list[list[str]]:
    return [
        training.ask(store, names, question.text, ("realm:bench",), _LIMIT)
        for question in half.questions
    ]


def _row(half: Set, finder: str, answers: Sequence[Sequence[str]]) -> list[object]:
    all_marks = [
        marks.mark_answer(answer, question.evidence)
        for answer, question in zip(answers, half.questions, strict=True)
    ]
    means = [marks.mean_with_interval([each[mark] for each in all_marks]) for mark in _MARKS]
    return [half.name, len(half.questions), finder, *means]


@contextmanager
def thesaurus_of(synonyms: tuple[Group, ...], derivations: tuple[Group, ...]) -> Iterator[None]:
    """Expand queries by these groups alone."""
    tables = thesaurus.SYNONYMS, thesaurus.DERIVATIONS
    thesaurus.SYNONYMS, thesaurus.DERIVATIONS = synonyms, derivations
    expansion.related_tables.cache_clear()
    try:
        yield
    finally:
        thesaurus.SYNONYMS, thesaurus.DERIVATIONS = tables
        expansion.related_tables.cache_clear()
