import pytest

import demo

RESULT = '{"summary": "1 of 1 pods fail", "used_facts": ["a", "b"], "remembered_facts": []}'


def use(name: str, *, used: str = "", remembered: str = "") -> demo.Use:
    return demo.Use(name, 1.0, frozenset(used.split()), frozenset(remembered.split()))


def test_ids_are_read_from_the_result() -> None:
    assert demo.ids(RESULT, "used_facts") == {"a", "b"}
    assert demo.ids(RESULT, "remembered_facts") == frozenset()
    assert demo.ids("killed before it wrote a result", "used_facts") == frozenset()


def test_second_use_that_names_a_fact_of_the_first_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    demo.compare(use("one", remembered="a b"), use("two", used="a c"))

    out = capsys.readouterr().out
    assert "    a  remembered by the first" in out
    assert "    c  drawn from the record of an earlier run" in out


def test_demo_that_ran_before_counts_what_both_uses_name() -> None:
    demo.compare(use("three", used="a"), use("four", used="a"))


def test_second_use_that_names_nothing_of_the_first_fails() -> None:
    with pytest.raises(demo.DemoFailed, match="two names no fact of one"):
        demo.compare(use("one", remembered="a"), use("two", used="c"))
