import pytest

import demo

RESULT = '{"summary": "1 of 1 pods fail", "used_facts": ["a", "b"], "remembered_facts": []}'


def use(name: str, *, usage: str = "", remembered: str = "") -> demo.Use:
    return demo.Use(name, 1.0, frozenset(usage.split()), frozenset(remembered.split()))


def test_ids_are_read_from_the_result() -> None:
    assert demo.ids(RESULT, "used_facts") == {"a", "b"}
    assert demo.ids(RESULT, "remembered_facts") == frozenset()
    assert demo.ids("killed before it wrote a result", "used_facts") == frozenset()


def test_second_use_that_names_a_fact_of_the_first_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    demo.compare(use("one", remembered="a b"), use("two", usage="a c"))

    output = capsys.readouterr().out
    assert "    a  remembered by the first" in output
    assert "    c  extracted from the record of an earlier run" in output


def test_demo_that_ran_before_counts_what_both_uses_name() -> None:
    demo.compare(use("three", usage="a"), use("four", usage="a"))


def test_agent_that_saves_turns_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    demo.compare_turns(4, 2)
    demo.compare_turns(2, 2)

    output = capsys.readouterr().out
    assert "the first run took 4 turns; with its fact, the second took 2" in output
    assert "both runs took 2 turns: the fact was known from an earlier demo" in output


def test_agent_that_needs_more_turns_with_its_fact_fails() -> None:
    with pytest.raises(demo.DemoFailed, match="took 4 turns, more than the 2 of the first"):
        demo.compare_turns(2, 4)


def test_second_use_that_names_nothing_of_the_first_fails() -> None:
    with pytest.raises(demo.DemoFailed, match="two names no fact of one"):
        demo.compare(use("one", remembered="a"), use("two", usage="c"))
