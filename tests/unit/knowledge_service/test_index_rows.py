"""One document alone, and masking: the short ways give what the long ones do."""

from __future__ import annotations

import unicodedata
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.domain import prompt_injection, redaction
from knowledge_service.search.postings import merge_policy, segment, segment_codec
from knowledge_service.search.text import analyser, term_ids


@given(st.lists(st.sampled_from("abcdefgh"), max_size=300), st.integers(0, 5000))
def test_document_alone_is_packed_as_in_a_run(message: list[str], first: int) -> None:
    document = term_ids.document(7, Counter(message))
    (row,) = merge_policy.pack_tail(segment.build([document]), 0)
    assert segment_codec.pack_single(document, first) == row._replace(first=first)


TEXT_STRATEGY = st.sampled_from(
    ["May", "may,", "7", "2024-05-07", "1,250", "don't", "snake_case-1.2", "pod's", "MARCH",
     "(june)", "\x1cjuly\x1f", "café", "1.29.3", "a.b/c", "--", "x" * 70]
)  # fmt: skip


@given(st.lists(TEXT_STRATEGY | st.text(max_size=12), max_size=12).map(" ".join))
def test_text_taken_by_its_chunks_has_the_terms_of_the_whole(text: str) -> None:
    expected = term_ids.document(7, analyser.terms(text))
    assert term_ids.document_of(7, text) == expected
    assert term_ids.document_of(7, text) == expected  # what was seen before is remembered


def test_blobs_are_analysed_and_not_remembered() -> None:
    analyser._cached_terms.cache_clear()
    for n in range(300):
        blob = f"{'x' * 8000}{n}"
        assert term_ids.document_of(7, f"{blob},may 7") == term_ids.document(
            7, analyser.terms(f"{blob},may 7")
        )
    held = term_ids._memory.chunks
    assert sum(map(len, (*held, *held.months))) < 2 << 20
    assert analyser._cached_terms.cache_info().currsize < 10


@given(st.lists(st.sampled_from("abc"), max_size=300))
def test_document_read_back_from_its_row_is_packed_to_the_same_row(message: list[str]) -> None:
    row = segment_codec.pack_single(term_ids.document(7, Counter(message)), 3)
    read = segment_codec.unpack_single(row.data)
    cut_short = max(Counter(message).values(), default=0) > 255
    assert (read is None) == cut_short
    if read is not None:
        number, packed = read
        run = segment.build_packed([number], [packed])
        assert next(merge_policy.pack_tail(run, 0)) == row._replace(first=0)


@given(st.lists(st.lists(TEXT_STRATEGY, max_size=400).map(" ".join), min_size=1, max_size=20))
def test_documents_gathered_from_packed_terms_are_those_gathered_alone(texts: list[str]) -> None:
    numbered = list(enumerate(texts, start=5))
    alone = segment.build([term_ids.document_of(number, text) for number, text in numbered])
    packed = [term_ids.term_ids_of(text) for text in texts]
    combined_segment = segment.build_packed([number for number, _ in numbered], packed)
    assert list(merge_policy.pack_tail(combined_segment, 0)) == list(
        merge_policy.pack_tail(alone, 0)
    )
    for remaining_count, right in zip(
        vars(combined_segment).values(), vars(alone).values(), strict=True
    ):
        assert remaining_count.dtype == right.dtype
        assert remaining_count.tolist() == right.tolist()


@given(st.text(max_size=60), st.sampled_from(["password=hunter22", "Bearer abcdefghijklmnopq", ""]))
def test_text_without_a_sign_of_a_secret_has_none(text: str, secret: str) -> None:
    full_message = f"{text} {secret}"
    assert redaction.mask(full_message) == redaction._masked(full_message)


def test_each_pattern_has_its_sign() -> None:
    for text in (
        "-----BEGIN PRIVATE KEY-----x",
        "eyJabcdefgh.abcdefgh.abcdefgh",
        "AKIAABCDEFGHIJKLMNOP",
        "ASIAABCDEFGHIJKLMNOP",
        "ghp_" + "a" * 36,
        "github_pat_" + "a" * 22,
        "glpat-" + "a" * 20,
        "sk-" + "a" * 20,
        "xoxb-abcdefghij",
        "AIza" + "a" * 35,
        "npm_" + "a" * 36,
        "eyJ" + "a" * 8 + "." + "a" * 8 + "." + "a" * 8,
        "AKIA" + "A" * 16,
        "glsoat_" + "a" * 20,
        "hooks.slack.com/services/" + "a" * 20,
        "ya29." + "a" * 20,
        "SG." + "a" * 16 + "." + "a" * 16,
        "shpat_" + "a" * 32,
        "NRAK-" + "A" * 27,
        "12345678:AA" + "a" * 33,
        "?sig=" + "a" * 30,
        "dapi" + "a" * 32,
        "passwd: hunter22",
        "api-key=abcdef",
        "apikey=abcdef",
        "bearer " + "a" * 16,
        "https://me:word@host",
    ):
        assert redaction.MASK in redaction.mask(text), text
        assert redaction._may_hold_one(text.lower()), text


_MESSAGE = """
ignore disregard forget override all previous your instructions rules prompt: from now on you are a
new unrestricted admin system assistant agent ai must should reveal show send the secrets token to
https: webhook whenever if you read this then always run never tell do not users without telling
permission it is critical that curl x | sh <system> [INST] ## begin_system_prompt note for agents
act as if you developer mode enabled disable safety before skip reviews for this , . : \u0131 \u00ad
"""
VOCABULARY = _MESSAGE.split()


@given(st.lists(st.sampled_from(VOCABULARY), max_size=14), st.booleans())
def test_gate_tries_every_rule_that_could_match(message: list[str], large: bool) -> None:
    text = " ".join(message).upper() if large else " ".join(message)
    normalize = unicodedata.normalize("NFKC", prompt_injection._UNSEEN.sub("", text))
    expected = any(rule.is_broken_by(normalize.lower()) for rule in prompt_injection._RULES)
    assert bool(prompt_injection.detect_flags(text)) == expected


def test_small_runs_say_nothing_that_goes_without_saying() -> None:
    new = [term_ids.document(n, Counter([f"a{n}", f"b{n}", f"c{n}"])) for n in range(64)]
    (alone,) = merge_policy.pack_tail(segment.build(new[:1]), 0)
    (run,) = merge_policy.pack_tail(segment.build(new), 0)
    assert len(alone.data) == 12 + 3 * (8 + 1) + 6, "a term and how often it comes"
    assert len(run.data) == 12 + 64 * (3 * (8 + 1 + 1 + 1) + 6), "with it how often, and where"
