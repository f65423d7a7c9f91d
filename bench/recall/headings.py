"""Questions about operations by many projects: `python -m bench.recall headings DIR [judged]`.

A heading with at least three content words, in the documentation of a project, asks; the
paragraphs below it answer, any of them. It is asked twice: among all paragraphs of that project,
and among those of four projects of one half. With the questions of the FAQs, these judge each
source and each group of the thesaurus: what the answers lose without it. Pages that are sources of
the thesaurus, glossaries, release notes and generated references are left out, and no weight is
learned from these sets.

The pages stay where they are: `DIR` receives a clone of each repository, and each page is read at
a fixed commit. The projects have two halves. The first may be looked at while recall is changed.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path

import numpy as np

from bench.figures import table
from bench.recall import faqs, markdown_pages, marks, training
from bench.recall.queries import Question, Set
from bench.recall.word_vectors import Source, is_word
from knowledge_client.models import FactIn
from knowledge_service.search import thesaurus
from knowledge_service.search.text import analyser
from knowledge_service.search.thesaurus import Group
from knowledge_service.store.sqlite.store import SqliteStore

_MOST_QUESTIONS = 250
_CONTENT_WORDS = 3
_LIMIT = 20
_TOGETHER = 4
_TOTALS_HEAD = ("facts of", "questions", "finder", "MRR", "first", "among 5", "among 10")
_HEAD = (
    "without", "questions with its words", "answers that change", "MRR", "among 10", "better",
    "worse",
)  # fmt: skip
DERIVATIONS = "derivations"
# A template of a site or an import of a page, which no reader sees.
_NO_TEXT = re.compile(r"\{%|^import |^:::")
_UNWANTED = re.compile(
    r"(?i)(^|/)(i18n|vendor|zh|ja|ko|blog|news|cli|cmd|commands|generated|cli-docs|proposals?|"
    r"releases?|release[-_]notes|changes|changelogs?|node_modules)/"
    r"|glossary|terminology|changelog|release[-_]?notes|/faq|\bfaq\b|troubleshooting/README\.md$"
)


@dataclass(frozen=True)
class Project(Source):
    """The documentation of a project, in the folder `docs` unless `pages` says otherwise."""

    pages: str = "^docs/"


TUNING = (
    Project("argoproj/argo-cd", "Apache-2.0", "37ee0097cf851bc2dd7665fc081bbce61a7e836e"),
    Project("argoproj/argo-workflows", "Apache-2.0", "f016ad89eb269d282aec06dc491c29f396a38df4"),
    Project(
        "aws-observability/observability-best-practices",
        "MIT-0",
        "133164bee1a61c97ecee8c828d5f1ca981bff48f",
        "^docusaurus/docs/",
    ),
    Project(
        "cloudnative-pg/cloudnative-pg",
        "Apache-2.0",
        "a95a534dbe0854495b863bbc1b7651f74d310916",
        "^docs/src/",
    ),
    Project(
        "containers/podman",
        "Apache-2.0",
        "c6580b4a5219c9efb9ab79a540637d8a58b736f8",
        r"^docs/tutorials/|^[a-z]+\.md$",
    ),
    Project(
        "docker-mailserver/docker-mailserver", "MIT", "c9b015ddc869b277c16dd20ef4a70e595c72d022"
    ),
    Project(
        "external-secrets/external-secrets",
        "Apache-2.0",
        "cc5bfbc2234ace9cb0caff4ea89c435cf517b27b",
    ),
    Project(
        "finopsfoundation/framework",
        "CC BY 4.0",
        "cf31432a637548c85434270dfd9323cc69383326",
        "^_(pages|capabilities|domains)/",
    ),
    Project(
        "fluxcd/website",
        "Apache-2.0",
        "6da0f383c3348b92f94ae5a90c4d2b59ec0144e8",
        "^content/en/(flux|flagger)/",
    ),
    Project("jj-vcs/jj", "Apache-2.0", "9d905d5432869c7aa9539e6e5c7fece5842bed37"),
    Project(
        "kserve/website",
        "Apache-2.0",
        "05b83a6cf9d6c4045a83d79eb8d0029605d655e7",
        r"^versioned_docs/version-0\.20/",
    ),
    Project(
        "kubernetes/autoscaler",
        "Apache-2.0",
        "55c37cd5eb550756c5ccc5a89e9068d77797e575",
        r"^[a-z-]+/(docs/)?[A-Za-z]+\.md$",
    ),
    Project("kubernetes/ingress-nginx", "Apache-2.0", "dbb11b92ddb77bee9c35e462479129354c84f939"),
    Project(
        "kubernetes-sigs/external-dns", "Apache-2.0", "2bf1bf8af2b70f23579f9147c1f7e9394f7f83d5"
    ),
    Project(
        "linkedin/school-of-sre",
        "CC BY 4.0",
        "22979a6e89d4194e76e2b4903e78154d808d048c",
        "^courses/",
    ),
    Project("opencost/opencost-website", "Apache-2.0", "6bdcb9e70f4d598ce5d8787599e1d55f8f2195ca"),
    Project(
        "opensearch-project/documentation-website",
        "Apache-2.0",
        "cf95a341c9b617c96ca8773b258512a18b93ab6b",
        "^_(tuning-your-cluster|install-and-configure|security|im-plugin|observing-your-data|troubleshoot|monitoring-your-cluster)/",
    ),
    Project(
        "ory/docs",
        "Apache-2.0",
        "378ce260155b907bc21f4dfd84a475adaa689c89",
        "^docs/(kratos|hydra|keto|oathkeeper|identities|guides|troubleshooting|oauth2-oidc|security-compliance)/",
    ),
    Project(
        "projectcontour/contour",
        "Apache-2.0",
        "31c4bb38e0a52cef4d8273dd5641a70e39f1d693",
        "^site/content/docs/main/",
    ),
    Project("traefik/traefik", "MIT", "fd5a576df2e8aeb0bfc8a96b6ef6e60a61f7ec0a", "^docs/content/"),
    Project(
        "VictoriaMetrics/VictoriaMetrics",
        "Apache-2.0",
        "b7ef6cc3ed35c607e053a8b7755fc3b896a10eaa",
        "^docs/victoriametrics/",
    ),
    Project(
        "vitejs/vite", "MIT", "a98c8d95d552c6fa98ab66fb810f5b39ad5abf49", "^docs/(guide|config)/"
    ),
    Project(
        "vitessio/website",
        "Apache-2.0",
        "ad92a7c1ae28a1fd510ab2349f83d72f0f34b3b5",
        r"^content/en/docs/22\.0/",
    ),
)
JUDGED = (
    Project("argoproj/argo-rollouts", "Apache-2.0", "9f8d111d8f8e3e88b6d7f8bbdf62fd3cd863ef9d"),
    Project(
        "aws/karpenter-provider-aws",
        "Apache-2.0",
        "1d927085dd81a9df9301e613f371dac5b4d16bfe",
        "^website/content/en/docs/",
    ),
    Project(
        "cert-manager/website",
        "Apache-2.0",
        "776e5dba56510fc9de84206b806b568447077f25",
        "^content/docs/",
    ),
    Project(
        "cockroachdb/docs",
        "CC BY 4.0",
        "79e9a5d03f4b01203131e71af49a6f2eaae9ff63",
        r"^src/current/v25\.4/[a-m]",
    ),
    Project("cortexproject/cortex", "Apache-2.0", "a8c6358a13073af1dfa81394420273e5fe9ce88c"),
    Project(
        "etcd-io/website",
        "Apache-2.0",
        "824597935df6e95992ef61c07e3222f4f796ca6c",
        r"^content/en/docs/v3\.8/",
    ),
    Project("git-lfs/git-lfs", "MIT", "af13aa8f259f958049d3703252068e125b412d5e"),
    Project(
        "giantswarm/docs",
        "Apache-2.0",
        "d43379e044d5dbec93cbb49314a72a3ebf87c1c5",
        "^src/content/(tutorials|overview|support)/",
    ),
    Project("goharbor/website", "Apache-2.0", "9f010ab1c800e0353c3df96a0b23725294bd10ab"),
    Project(
        "helm/helm-www",
        "Apache-2.0",
        "227f41447a683545325e87aedf10c67096d11004",
        "^versioned_docs/version-3/",
    ),
    Project(
        "jaegertracing/documentation",
        "Apache-2.0",
        "d9251ffa7b4b1891ce81cb6cf395b81cbde8255e",
        r"^content/docs/v2/2\.20/",
    ),
    Project("kubernetes/kops", "Apache-2.0", "268927e26409f861634e18f3632c9dd483c350cf"),
    Project(
        "kyverno/website",
        "Apache-2.0",
        "7c0814a5ca77662ea9aaa33c6ee7434865409c07",
        "^src/content/docs/docs/",
    ),
    Project(
        "linkerd/website",
        "Apache-2.0",
        "93f001753363bba09eafd81e290512f89f4697ed",
        r"^linkerd\.io/content/2\.19/",
    ),
    Project(
        "microsoft/code-with-engineering-playbook",
        "CC BY 4.0",
        "016770e43d8a75be87b98c000c049f07c4a6e6f8",
    ),
    Project(
        "microsoft/finops-toolkit",
        "MIT",
        "04d370f322f6052b02893ba567c3b75195a19f99",
        "^docs-mslearn/",
    ),
    Project(
        "nginx/documentation",
        "BSD-2-Clause",
        "76d2906026e513dda715e6017c2b268326ef0098",
        "^content/(nginx|nic)/",
    ),
    Project("prometheus/docs", "Apache-2.0", "c105550aad07161f62d02e305ed09799ec6025fa"),
    Project(
        "reactjs/react.dev",
        "CC BY 4.0",
        "12d692da47e77cdc558b928fcfbaf4e71c6d0cec",
        "^src/content/learn/",
    ),
    Project(
        "rook/rook", "Apache-2.0", "d0c3b9ce6d64ff0c47074437aab7314b7adf7f2c", "^Documentation/"
    ),
    Project(
        "saleor/saleor-docs",
        "BSD-3-Clause",
        "b2b6c652939d57f6d1870f04a5a8a2482b1021ec",
        "^docs/(?!api-reference)",
    ),
    Project(
        "tektoncd/website",
        "Apache-2.0",
        "93d2ef3c6e7ed62b23ab0c972f10a6c2d7325f2c",
        "^content/en/docs/",
    ),
    Project(
        "vmware-tanzu/velero",
        "Apache-2.0",
        "d30d389b56068eebd675d9953492183cb7b58a78",
        "^site/content/docs/main/",
    ),
    Project("zalando/postgres-operator", "MIT", "a7aaad0a0b9517bb46077f2925eb80ae8ebe1a0c"),
)


PROJECTS = {"tuning": TUNING, "judged": JUDGED}


@dataclass(frozen=True)
class Line:
    """A group of the thesaurus, and the source that it is below."""

    source: str
    words: Group

    @property
    def terms(self) -> frozenset[str]:
        return frozenset(map(analyser.stem, self.words))


@dataclass(frozen=True, eq=False)
class Case:
    """A question, the scopes that it is asked of, and its terms."""

    question: Question
    scopes: tuple[str, ...]
    terms: frozenset[str]


@dataclass(frozen=True)
class Answer:
    """The names of the first facts, and their marks."""

    names: tuple[str, ...]
    marks: marks.Marks


def read(folder: Path, project: Project) -> Set:
    """Read the paragraphs of a project and its questions; clone it if it is missing."""
    wanted = re.compile(f"^(?=.*({project.pages})).*\\.mdx?$")
    names: dict[str, str] = {}
    facts: dict[str, FactIn] = {}
    evidence: dict[str, set[str]] = {}
    for page in markdown_pages.pages(folder, project.repository, project.commit, wanted, _UNWANTED):
        for heading, paragraphs in markdown_pages.sections(page):
            texts = [text for text in paragraphs if not _NO_TEXT.search(text)]
            for text in texts:
                name = names.setdefault(text.lower(), f"{project.repository} {len(names)}")
                facts.setdefault(name, FactIn(content=text))
            if texts and _is_question(heading):
                evidence.setdefault(heading, set()).update(names[text.lower()] for text in texts)
    questions = [
        Question(f"{project.repository} {number}", project.repository, heading, frozenset(answers))
        for number, (heading, answers) in enumerate(evidence.items())
    ]
    step = -(-len(questions) // _MOST_QUESTIONS) or 1
    return Set(project.repository, facts, tuple(questions[::step]))


def _is_question(heading: str) -> bool:
    frame = set(map(analyser.stem, thesaurus.WEAK_WORDS | thesaurus.QUERY_STOP_WORDS))
    words = [set(filter(is_word, analyser.sequence(word))) - frame for word in heading.split()]
    return sum(map(bool, words)) >= _CONTENT_WORDS


def lines() -> list[Line]:
    """Return the groups of the thesaurus, each with its source."""
    text = (resources.files(thesaurus) / "synonyms.txt").read_text("utf-8")
    result, source = [], ""
    for line in text.splitlines():
        if line.startswith("# Source: "):
            source = line.removeprefix("# Source: ").rstrip(",")
        elif line and not line.startswith("#"):
            result.append(Line(source, tuple(line.split())))
    return result + [Line(DERIVATIONS, words) for words in thesaurus.DERIVATIONS]


class Judge:
    """Asks the questions of some sets with parts of the thesaurus."""

    def __init__(self, store: SqliteStore, members: Sequence[Set]) -> None:
        self._store = store
        self._names: dict[str, str] = {}
        self.alone: list[Case] = []
        self.together: list[Case] = []
        scopes = [f"realm:bench{number}" for number in range(len(members))]
        for scope, member in zip(scopes, members, strict=True):
            self._names |= training.remember(store, scope, member.facts)
        for joined in _parts(list(zip(scopes, members, strict=True))):
            all_scopes = tuple(scope for scope, _ in joined)
            for scope, member in joined:
                for question in member.questions:
                    terms = frozenset(analyser.sequence(question.text))
                    self.alone.append(Case(question, (scope,), terms))
                    self.together.append(Case(question, all_scopes, terms))

    def ask(self, cases: Iterable[Case]) -> dict[Case, Answer]:
        """Return the answers of some questions."""
        answers = {}
        for case in cases:
            text = case.question.text
            names = tuple(training.ask(self._store, self._names, text, case.scopes, _LIMIT))
            answers[case] = Answer(names, marks.mark_answer(names, case.question.evidence))
        return answers

    def without(
        self, dropped: Sequence[Line], cases: Sequence[Case], kept: Sequence[Line]
    ) -> dict[Case, Answer]:
        """Return the answers of the questions that have a word of the dropped groups."""
        terms = frozenset(chain.from_iterable(line.terms for line in dropped))
        rest = [line for line in kept if line not in dropped]
        with faqs.thesaurus_of(
            tuple(line.words for line in rest if line.source != DERIVATIONS),
            tuple(line.words for line in rest if line.source == DERIVATIONS),
        ):
            return self.ask(case for case in cases if not terms.isdisjoint(case.terms))


@dataclass(frozen=True)
class Effect:
    """What questions lose without some groups of the thesaurus, one value a question."""

    name: str
    questions: int
    changed: int
    reciprocal_ranks: Sequence[float]
    among_10: Sequence[float]

    def row(self) -> list[object]:
        """Return the means in points of 100 with 95 % intervals, by resampled questions."""
        better = sum(value > 0 for value in self.reciprocal_ranks)
        worse = sum(value < 0 for value in self.reciprocal_ranks)
        differences = map(_difference, (self.reciprocal_ranks, self.among_10))
        return [self.name, self.questions, self.changed, *differences, better, worse]


def effect(
    name: str, answers: Mapping[Case, Answer], without: Mapping[Case, Answer], times: int
) -> Effect:
    """Compare the answers with those without some groups.

    Each question is asked some `times`, one round after the other, and counts with the mean.
    """

    def losses(mark: str) -> list[float]:
        values = [
            answer.marks[mark] - without.get(case, answer).marks[mark]
            for case, answer in answers.items()
        ]
        return list(np.array(values).reshape(times, -1).mean(axis=0))

    changed = sum(answers[case].names != answer.names for case, answer in without.items())
    asked = {case.question.id for case in without}
    return Effect(name, len(asked), changed, losses("MRR"), losses("among 10"))


def _difference(values: Sequence[float]) -> str:
    low, high = marks.interval(values)
    return f"{100 * float(np.mean(values)):+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"


def run(folder: Path, half: str) -> str:
    """Return what the thesaurus, each source and each group of it bring on a half."""
    of_faqs = faqs.read(folder)[half == "judged"]
    members = [*(read(folder, project) for project in PROJECTS[half]), of_faqs]
    with tempfile.TemporaryDirectory() as temporary_folder:
        store = SqliteStore(Path(temporary_folder) / "k.db")
        try:
            return "\n\n".join(_tables(Judge(store, members), lines()))
        finally:
            store.close()


def _tables(judge: Judge, groups: Sequence[Line]) -> Iterator[str]:
    cases = [*judge.alone, *judge.together]
    answers = judge.ask(cases)
    without = {**answers, **judge.without(groups, cases, groups)}
    rows = []
    for name, asked in (("one project", judge.alone), ("four projects", judge.together)):
        rows.append(_total(name, "recall", [answers[case] for case in asked]))
        rows.append(_total(name, "without related terms", [without[case] for case in asked]))
    yield table(_TOTALS_HEAD, rows)

    def effect_of(name: str, dropped: Sequence[Line]) -> Effect:
        return effect(name, answers, judge.without(dropped, cases, groups), times=2)

    sources = list(dict.fromkeys(line.source for line in groups))
    effects = [
        effect_of(source, [line for line in groups if line.source == source]) for source in sources
    ]
    yield table(_HEAD, [each.row() for each in effects])
    effects = [effect_of(" ".join(line.words), [line]) for line in groups]
    yield table(_HEAD, [each.row() for each in effects if each.changed])


def _total(name: str, finder: str, answers: Sequence[Answer]) -> list[object]:
    means = (
        marks.mean_with_interval([answer.marks[mark] for answer in answers])
        for mark in _TOTALS_HEAD[3:]
    )
    return [name, len(answers), finder, *means]


def _parts(members: Sequence[tuple[str, Set]]) -> Iterator[Sequence[tuple[str, Set]]]:
    for start in range(0, len(members), _TOGETHER):
        yield members[start : start + _TOGETHER]
