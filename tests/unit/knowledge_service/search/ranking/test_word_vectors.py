"""Word vectors: similarity without a common word, and its part of the score."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.recall import distilled_vectors
from bench.recall.word_vectors import SOURCES, Source, terms_without_identifiers
from knowledge_service.search import second_hop
from knowledge_service.search.query import parser
from knowledge_service.search.query.parser import ParsedQuery
from knowledge_service.search.ranking import ranking, weights, word_vectors
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import Evidence
from knowledge_service.search.ranking.word_vectors import Similarities, WordVectors
from knowledge_service.search.text import analyser
from tests.unit.knowledge_service.search.candidate_rows import NOW, candidate


def similarities_of(query: str, *texts: str) -> Similarities:
    return word_vectors.TEXT_VECTORS.similarities(tuple(analyser.sequence(query)), texts)


def similarities(query: str, *texts: str) -> list[float]:
    """Return the similarities by the contexts in documentation of operations."""
    return similarities_of(query, *texts).by_contexts


NEAR = {
    "money": ("How much do we pay for it?", "The price has a discount", "The disk is encrypted"),
    "time": ("When does the token expire?", "Its TTL is an hour", "The chart has a new colour"),
    "failure": ("Why did it crash?", "The kernel killed it", "The dashboard has a dropdown"),
}


@pytest.mark.parametrize(("query", "near", "far"), NEAR.values(), ids=NEAR)
def test_words_of_the_same_contexts_are_near(query: str, near: str, far: str) -> None:
    near_value, far_value = similarities(query, near, far)
    assert near_value > far_value


NEAR_IN_GENERAL = {
    "holiday": ("Where did she travel?", "Anna: our flight to Oslo", "Anna: the soup was cold"),
    "illness": ("Was he ill?", "Bruno: I saw a doctor today", "Bruno: I painted the fence"),
    "animal": ("Which pet has she?", "Anna: my dog barks", "Anna: my car broke down"),
}


@pytest.mark.parametrize(("query", "near", "far"), NEAR_IN_GENERAL.values(), ids=NEAR_IN_GENERAL)
def test_words_of_general_english_are_near_by_distilled_vectors(
    query: str, near: str, far: str
) -> None:
    near_value, far_value = similarities_of(query, near, far).distilled
    assert near_value > far_value


def test_the_same_words_are_as_near_as_can_be() -> None:
    values = similarities("restart the node", "restart node", "Nodes: restarted, and restarted!")
    assert values == pytest.approx([1.0, 1.0])


def test_texts_without_a_known_word_are_not_near() -> None:
    for values in similarities_of("restart the node", "", "zyzzyva", "12"):
        assert values == [0.0] * 3
    assert similarities_of("restart the node") == ([], [])
    for query in ("zyzzyva", ""):
        assert similarities_of(query, "restart the node") == ([0.0], [0.0])


CONTEXT_TABLE = WordVectors(b"# of contexts\nalpha\nbeta", bytes([3, 4, 0, 0, 0, 1]))
DISTILLED_TABLE = WordVectors(b"beta\ngamma", bytes([256 - 5, 2, 5, 0]))
SMALL = word_vectors.TextVectors(CONTEXT_TABLE, DISTILLED_TABLE)


def test_each_table_gives_the_cosine_of_the_sums_of_its_vectors() -> None:
    texts = ("alpha", "beta", "alpha beta alpha", "gamma", "delta")
    by_contexts, distilled = SMALL.similarities(("alpha",), texts)
    assert by_contexts == pytest.approx([1.0, 0.0, 5 / math.sqrt(26), 0.0, 0.0])
    assert distilled == [0.0] * 5
    by_contexts, distilled = SMALL.similarities(("beta", "gamma"), texts)
    assert by_contexts == pytest.approx([0.0, 1.0, 1 / math.sqrt(26), 0.0, 0.0])
    assert distilled == pytest.approx([0.0, 2 / math.sqrt(29), 2 / math.sqrt(29), 0.0, 0.0])


def test_opposite_vectors_are_not_near() -> None:
    assert SMALL.similarities(("gamma",), ["beta"]).distilled == [0.0]


def test_a_term_has_the_rank_of_its_frequency() -> None:
    ranks = [CONTEXT_TABLE.frequency_rank(term) for term in ("alpha", "beta", "gamma")]
    assert ranks == [0, 1, CONTEXT_TABLE.term_count]


def test_a_query_without_a_vector_costs_no_analysis_of_texts() -> None:
    before = word_vectors.TEXT_VECTORS._vector_of_text.cache_info()
    similarities_of("zyzzyva", "a text that no other test compares")
    assert word_vectors.TEXT_VECTORS._vector_of_text.cache_info() == before


def test_vectors_are_learned_from_the_parts_of_identifiers() -> None:
    text = "Set maxConnections in app.log of fail-over 7 on 2023-05-07"
    expected = ["set", "max", "connect", "app", "log", "fail"]
    assert terms_without_identifiers(text) == expected


def test_texts_do_not_affect_each_other() -> None:
    texts = ("restart node", "", "delete the volume", "price of a machine")
    together = similarities("reboot a server", *texts)
    assert together == [similarities("reboot a server", text)[0] for text in texts]


@given(
    text=st.text(
        st.characters() | st.sampled_from("aN-.',7\u2019\u0301\u00a0\u3042 \n"), max_size=60
    )
)
@example("Nodes: won't re-join 1,000 pods\u00a0na\u00efve")
def test_no_term_spans_a_space(text: str) -> None:
    token_texts, _ = analyser.tokens(text)
    of_chunks = [term for chunk in text.split() for term in analyser.of_chunk(chunk)[0]]
    assert of_chunks == [term for token in token_texts for term in analyser.of_token(token)]


def test_chunks_that_are_punctuated_differently_have_the_same_vectors() -> None:
    plain, punctuated = similarities(
        "reboot a server", "restart node now", '"Restart" (node), now!'
    )
    assert plain == punctuated > 0


def test_a_long_text_counts_by_its_beginning() -> None:
    filler = "machine " * 125
    assert similarities("price", filler + "price") == similarities("price", filler)


def test_the_cache_holds_only_the_beginning_of_a_long_text() -> None:
    of_text = word_vectors.TEXT_VECTORS._vector_of_text
    beginning = "a beginning that no other test has " * 30
    similarities("price", beginning + "one end")
    before = of_text.cache_info()
    similarities("price", beginning + "another end")
    assert of_text.cache_info().hits == before.hits + 1


QUERY = parser.parse("How much do we pay?", NOW)


def parts(
    rows: list[Candidate], text: dict[int, float], query: ParsedQuery = QUERY, **further: object
) -> dict[int, dict[str, float]]:
    evidence = Evidence({row.number: row for row in rows}, text, **further)  # type: ignore[arg-type]
    groups = ranking.group_candidates(evidence, use_conversations=True)
    return ranking.sum_features(query, evidence, groups, weights.SHIPPED)


def product(content: str) -> float:
    ((by_contexts,), (distilled,)) = word_vectors.TEXT_VECTORS.similarities(
        QUERY.own_terms, [content]
    )
    return by_contexts * distilled


def test_the_part_of_a_fact_is_the_product_of_both_similarities() -> None:
    content = "the price has a discount"
    expected = 2.0 * weights.SHIPPED.additive["word_vectors"] * product(content)
    assert expected > 0
    (part,) = parts([candidate(content, 1)], {1: 2.0}).values()
    assert part["word_vectors"] == pytest.approx(expected)


@pytest.mark.parametrize("word", ["overcommit", "puppy"])
def test_a_fact_that_only_one_table_knows_has_no_part(word: str) -> None:
    by_contexts, distilled = similarities_of(word, word)
    assert sorted([*by_contexts, *distilled]) == pytest.approx([0.0, 1.0])
    query = parser.parse(word, NOW)
    assert "word_vectors" not in parts([candidate(word, 1)], {1: 1.0}, query)[1]


def test_the_part_is_a_share_of_the_best_text_score() -> None:
    rows = [candidate("the price has a discount", 1), candidate("zyzzyva", 2)]
    once, twice = parts(rows, {1: 1.0, 2: 4.0}), parts(rows, {1: 1.0, 2: 8.0})
    assert twice[1]["word_vectors"] == pytest.approx(2 * once[1]["word_vectors"])
    assert "word_vectors" not in once[2]


def test_words_of_the_second_hop_are_not_words_of_the_question() -> None:
    rows = [candidate("the price has a discount", 1), candidate("deploy on Friday", 2)]
    text = {1: 1.0, 2: 0.5}
    wider_query = replace(QUERY, terms={**QUERY.terms, "deploy": second_hop.WEIGHT})
    assert parts(rows, text, wider_query) == parts(rows, text)


def test_related_terms_are_not_words_of_the_question() -> None:
    query = parser.parse("certificate", NOW)
    assert "tls" in query.terms
    assert query.own_terms == ("certif",)


def test_facts_that_no_term_matches_have_no_part() -> None:
    rows = [candidate("the price has a discount", 1), candidate("we pay", 2)]
    assert "word_vectors" not in parts(rows, {1: 0.0, 2: 1.0})[1]


def test_embeddings_replace_word_vectors() -> None:
    rows = [candidate("the price has a discount", 1)]
    assert "word_vectors" not in parts(rows, {1: 1.0}, similarities={1: 0.5})[1]


def test_only_the_best_matches_are_compared() -> None:
    rows = [candidate(f"price {number}", number) for number in range(1, 21)]
    compared = parts(rows, {row.number: float(row.number) for row in rows})
    assert [n for n in range(1, 21) if "word_vectors" in compared[n]] == list(range(5, 21))


TURNS = [
    candidate(f"{name}: {content}", number, tags_json='["session_1"]')
    for number, (name, content) in enumerate(
        [("Anna", "soup is cold"), ("Bruno", "a flight to Oslo"), ("Anna", "I travelled")], 1
    )
]
PLACES = {1: 1, 2: 2, 3: 3}
TRAVEL = parser.parse("Where did she travel?", NOW)


def turn_parts(weights_of_match: weights.Weights, **further: object) -> dict[int, dict[str, float]]:
    evidence = Evidence(
        {row.number: row for row in TURNS}, {1: 1.0, 2: 0.0, 3: 4.0}, PLACES,
        **further,  # type: ignore[arg-type]
    )  # fmt: skip
    groups = ranking.group_candidates(evidence, use_conversations=True)
    return ranking.sum_features(TRAVEL, evidence, groups, weights_of_match)


def test_turns_have_no_part_in_the_first_match() -> None:
    assert not any("word_vectors" in each for each in turn_parts(weights.SHIPPED).values())


def test_turns_have_a_part_in_the_second_hop_even_if_no_term_matches() -> None:
    compared = turn_parts(second_hop.weights_of(weights.SHIPPED))
    shares = [compared[number].get("word_vectors", 0.0) for number in (1, 2, 3)]
    assert shares[0] < shares[1] < shares[2] < 4.0


def test_embeddings_replace_word_vectors_of_turns() -> None:
    compared = turn_parts(second_hop.weights_of(weights.SHIPPED), similarities={3: 0.5})
    assert not any("word_vectors" in each for each in compared.values())


def test_facts_and_turns_of_the_second_hop_are_compared_by_their_own_tables() -> None:
    fact = candidate("the price has a discount", 4)
    turns = [
        candidate(turn.content.replace("Oslo", "a price"), turn.number, tags_json=turn.tags_json)
        for turn in TURNS
    ]
    evidence = Evidence(
        {row.number: row for row in (*turns, fact)}, {1: 1.0, 2: 0.0, 3: 2.0, 4: 4.0}, PLACES
    )
    groups = ranking.group_candidates(evidence, use_conversations=True)
    wider = second_hop.weights_of(weights.SHIPPED)
    compared = ranking.sum_features(QUERY, evidence, groups, wider)
    distilled = similarities_of("How much do we pay?", turns[1].content).distilled[0]
    weight = wider.additive[ranking.WORD_VECTORS_OF_TURNS]
    assert compared[2]["word_vectors"] == pytest.approx(4.0 * weight * distilled)
    expected = 4.0 * weights.SHIPPED.additive["word_vectors"] * product(fact.content)
    assert compared[4]["word_vectors"] == pytest.approx(expected)


def test_facts_have_the_same_part_in_the_second_hop() -> None:
    rows = [candidate("the price has a discount", 1), candidate("we pay", 2)]
    evidence = Evidence({row.number: row for row in rows}, {1: 1.0, 2: 2.0})
    groups = ranking.group_candidates(evidence, use_conversations=True)
    first, second = (
        ranking.sum_features(QUERY, evidence, groups, each)
        for each in (weights.SHIPPED, second_hop.weights_of(weights.SHIPPED))
    )
    assert first == second


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.repository)
def test_notice_and_the_list_of_terms_name_each_source(source: Source) -> None:
    terms = Path(word_vectors.__file__).with_name(word_vectors.TERMS_FILE).read_text()
    line = f"# Source: github.com/{source.repository} at {source.commit}, {source.licence}\n"
    assert line in terms
    assert source.repository in (Path(__file__).parents[5] / "NOTICE").read_text()


def test_notice_names_the_encoder_and_the_dictionary_of_the_distilled_vectors() -> None:
    notice = (Path(__file__).parents[5] / "NOTICE").read_text()
    terms = Path(word_vectors.__file__).with_name(word_vectors.DISTILLED_TERMS_FILE).read_text()
    head = "".join(line for line in terms.splitlines() if line.startswith("#"))
    for text in (notice, head):
        assert "all-MiniLM-L6-v2" in text
        assert "WordNet 3.0" in text


def test_each_file_has_a_vector_for_each_term() -> None:
    for terms_file, vectors_file, dimensions in (
        (word_vectors.TERMS_FILE, word_vectors.VECTORS_FILE, 100),
        (word_vectors.DISTILLED_TERMS_FILE, word_vectors.DISTILLED_VECTORS_FILE, 64),
    ):
        folder = Path(word_vectors.__file__).parent
        lines = (folder / terms_file).read_text().splitlines()
        terms = [line for line in lines if not line.startswith("#")]
        assert len(set(terms)) == len(terms)
        assert (folder / vectors_file).stat().st_size == len(terms) * dimensions


ENTRY = (
    "02084071 05 n 02 dog 0 domestic_dog 0 000 | a member of the genus Canis; "
    '"the dog barked all night"; "a dog"\n'
)


def test_definitions_come_with_their_words_and_examples_of_three_words(tmp_path: Path) -> None:
    folder = tmp_path / "wordnet"
    folder.mkdir()
    for name in ("adj", "adv", "noun", "verb"):
        (folder / f"data.{name}").write_text(ENTRY if name == "noun" else "  1 a licence\n")
    assert list(distilled_vectors.dictionary_sentences(tmp_path)) == [
        "dog, domestic dog: a member of the genus Canis",
        "the dog barked all night",
    ]


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "all-minilm-l6-v2-q.onnx").write_bytes(b"another")
    with pytest.raises(ValueError, match=r"v2-q\.onnx is not the expected file"):
        distilled_vectors.check(tmp_path)
