import pytest

from kais import labels, trace_context

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def test_a_run_without_a_trace_gets_one_that_is_the_same_each_time():
    derived = trace_context.of_run({}, "run-1")
    assert trace_context.parse(derived) == derived
    assert trace_context.of_run({}, "run-1") == derived
    assert trace_context.of_run({}, "run-2") != derived


def test_a_trace_that_a_person_set_is_kept_for_each_run():
    assert trace_context.of_run({labels.TRACEPARENT: GIVEN}, "run-1") == GIVEN
    stamped = {labels.TRACEPARENT: GIVEN, labels.RUN_ID: "run-1"}
    assert trace_context.of_run(stamped, "run-2") == GIVEN


def test_another_run_does_not_continue_the_trace_that_was_derived_for_the_first():
    first = trace_context.of_run({}, "run-1")
    stamped = {labels.TRACEPARENT: first, labels.RUN_ID: "run-1"}
    assert trace_context.of_run(stamped, "run-1") == first
    assert trace_context.of_run(stamped, "run-2") == trace_context.derive("run-2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        GIVEN.upper(),
        f"{GIVEN}\nX-Kais-Ticket: stolen",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        f"ff{GIVEN[2:]}",
    ],
)
def test_a_text_that_is_no_traceparent_is_replaced(text):
    assert trace_context.parse(text) is None
    assert trace_context.of_run({labels.TRACEPARENT: text}, "run-1") == trace_context.derive(
        "run-1"
    )
