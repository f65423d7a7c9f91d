import sqlite3
from decimal import Decimal

import pytest

from agent_runtime.errors import AgentError
from agent_runtime.money import prices
from agent_runtime.money.ledger import Ledger, Totals
from agent_runtime.money.meter import CostLimits, Meter, exceeded_limit
from agent_runtime.money.prices import CallUsage, ConfiguredPrice
from kais.agent_results import FailureClass
from kais.resources.cell_template import Provider
from tests.agent_attempts import PRICES, World, cell_spec

ANSWER = """
rules:
  - name: answer
    reply: {text: "Done.", usage: {input: 100, output: 20}}
"""
LOOK_AND_ANSWER = """
rules:
  - name: look
    when: {turn: 1}
    reply: {tool_calls: [{name: list_files, arguments: {}}], usage: {input: 5000, output: 3000}}
  - name: answer
    reply: {text: "Done.", usage: {input: 100, output: 20}}
"""
DOLLAR = ConfiguredPrice(input=Decimal(1), output=Decimal(10))


class Clock:
    def __init__(self, now_s: float = 1_000_000.0) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        return self.time_s


def totals(spent: str, *, hour: str = "0") -> Totals:
    return Totals(
        spent=Decimal(spent),
        spent_hour=Decimal(hour),
        task_spent=Decimal(spent),
        estimated=Decimal(0),
        input_tokens=0,
        output_tokens=0,
        turns=0,
    )


@pytest.mark.parametrize(
    ("limits", "spent", "cost", "problem"),
    [
        (CostLimits(), totals("9"), "1", None),
        (CostLimits(max_total=Decimal(10)), totals("9"), "1", None),
        (
            CostLimits(max_total=Decimal(10)),
            totals("9.5"),
            "1",
            (
                "resources.maxTotalCost is $10, of which $9.5 is spent or reserved, "
                "and the next call may cost $1"
            ),
        ),
        (
            CostLimits(max_total=Decimal(10), spent=Decimal(9)),
            totals("0.5"),
            "1",
            (
                "resources.maxTotalCost is $10, of which $9.5 is spent or reserved, "
                "and the next call may cost $1"
            ),
        ),
        (
            CostLimits(max_per_hour=Decimal(2), spent_hour=Decimal(1)),
            totals("9", hour="0.5"),
            "1",
            (
                "resources.maxCostPerHour is $2, of which $1.5 is spent or reserved, "
                "and the next call may cost $1"
            ),
        ),
        (
            CostLimits(max_share=Decimal("0.5"), spent=Decimal(9)),
            totals("0"),
            "1",
            (
                "the budget of this attempt is $0.5, of which $0 is spent or reserved, "
                "and the next call may cost $1"
            ),
        ),
        (
            CostLimits(max_total=Decimal(0)),
            totals("0"),
            "0.1",
            "resources.maxTotalCost is 0, which allows no paid calls",
        ),
        (CostLimits(max_total=Decimal(0)), totals("0"), "0", None),
    ],
    ids=lambda value: "" if not isinstance(value, str) else value[:20],
)
def test_a_call_that_could_exceed_a_limit_is_not_sent(limits, spent, cost, problem):
    assert exceeded_limit(limits, spent, Decimal(cost)) == problem


def test_a_call_in_flight_at_a_kill_counts_its_reservation(tmp_path):
    limits = CostLimits(max_total=Decimal("0.05"))
    worst = CallUsage(input_tokens=1000, output_tokens=3000)
    first = Ledger(tmp_path / "ledger.db")
    Meter(first, price=DOLLAR, limits=limits, clock=Clock()).reserve(worst)
    first.close()  # killed before the call was settled
    second = Ledger(tmp_path / "ledger.db")
    meter = Meter(second, price=DOLLAR, limits=limits, clock=Clock())
    assert meter.usage(tool_calls=0).estimated_cost == Decimal("0.031")
    with pytest.raises(AgentError, match=r"\$0\.031 is spent or reserved"):
        meter.reserve(worst)
    second.close()


def test_an_hour_later_the_hourly_limit_allows_calls_again(tmp_path):
    ledger, clock = Ledger(tmp_path / "ledger.db"), Clock()
    limits = CostLimits(max_per_hour=Decimal("0.02"))
    meter = Meter(ledger, price=DOLLAR, limits=limits, clock=clock)
    worst = CallUsage(input_tokens=1000, output_tokens=1000)
    meter.settle(meter.reserve(worst), worst, is_measured=True)
    with pytest.raises(AgentError, match=r"what is spent now counts until 14:46 UTC") as caught:
        meter.reserve(worst)
    assert caught.value.failure.reason is FailureClass.BUDGET
    clock.time_s += 3601
    meter.reserve(worst)
    ledger.close()


def test_two_reservations_share_what_is_left(tmp_path):
    limits = CostLimits(max_total=Decimal("0.03"))
    worst = CallUsage(input_tokens=0, output_tokens=2000)
    ledgers = [Ledger(tmp_path / "ledger.db") for _ in range(2)]
    meters = [Meter(each, price=DOLLAR, limits=limits, clock=Clock()) for each in ledgers]
    first = meters[0].reserve(worst)
    with pytest.raises(AgentError, match="the next call may cost"):
        meters[1].reserve(worst)
    meters[0].release(first)
    meters[1].reserve(worst)
    for each in ledgers:
        each.close()


def test_costs_add_up_exactly(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    price = ConfiguredPrice(input=Decimal("0.15"), output=Decimal("0.6"))
    meter = Meter(ledger, price=price, limits=CostLimits(), clock=Clock())
    for _ in range(100):
        call = meter.reserve(CallUsage(input_tokens=9, output_tokens=9))
        meter.settle(call, CallUsage(input_tokens=1, output_tokens=1), is_measured=True)
    usage = meter.usage(tool_calls=3)
    assert (usage.cost, usage.turns, usage.tool_calls) == (Decimal("0.000075"), 100, 3)
    ledger.close()


def test_a_damaged_ledger_sends_nothing(tmp_path):
    (tmp_path / "ledger.db").write_bytes(b"no database, but long enough to be read as one" * 100)
    with pytest.raises(AgentError, match="cannot be used: file is not a database") as caught:
        Ledger(tmp_path / "ledger.db")
    assert caught.value.failure.reason is FailureClass.INTERRUPTED


def test_what_was_used_is_reported_although_the_ledger_cannot_be_read_any_more(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    price = ConfiguredPrice(input=Decimal(1), output=Decimal(10))
    meter = Meter(ledger, price=price, limits=CostLimits(), clock=Clock())
    first = meter.reserve(CallUsage(input_tokens=1000, output_tokens=100))
    meter.settle(first, CallUsage(input_tokens=500, output_tokens=50), is_measured=True)
    meter.reserve(CallUsage(input_tokens=1000, output_tokens=100))
    ledger.close()
    usage = meter.usage(tool_calls=1)
    assert (usage.turns, usage.input_tokens) == (1, 500)
    assert (usage.cost, usage.estimated_cost) == (Decimal("0.003"), Decimal("0.002"))


def fill(ledger: Ledger) -> None:
    for _ in range(10_000):
        ledger.open_call(started_at=1.0, reserved=Decimal(1))


def test_a_full_disk_sends_nothing(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(AgentError, match="database or disk is full") as caught:
        fill(ledger)
    assert caught.value.failure.reason is FailureClass.INTERRUPTED
    ledger.close()


async def test_a_budget_of_nothing_sends_nothing(tmp_path):
    world = World(tmp_path, ANSWER, spec=cell_spec(resources={"maxTotalCost": 0.0}))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BUDGET
    assert result.failure.message == "resources.maxTotalCost is 0, which allows no paid calls"
    assert world.calls == []


@pytest.mark.parametrize(
    ("resources", "environment"),
    [
        ({"maxTotalCost": 0.07}, {}),
        ({"maxCostPerHour": 0.07}, {}),
        ({"maxTotalCost": 10.0}, {"KAIS_COST_SPENT": "9.93"}),
        ({"maxCostPerHour": 10.0}, {"KAIS_COST_SPENT_HOUR": "9.93"}),
        ({}, {"KAIS_MAX_COST": "0.07"}),
    ],
)
async def test_the_second_call_is_not_sent_if_it_could_exceed_a_limit(
    tmp_path, resources, environment
):
    spec = cell_spec(resources=resources, tools=[{"name": "list_files"}])
    world = World(tmp_path, LOOK_AND_ANSWER, spec=spec, environment=environment)
    result = await world.run()
    assert len(world.calls) == 1
    assert result.usage.cost == Decimal("0.035")
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BUDGET
    assert "the next call may cost" in result.failure.message


async def test_an_unknown_price_is_refused_under_a_budget(tmp_path):
    world = World(
        tmp_path,
        ANSWER,
        spec=cell_spec(resources={"maxTotalCost": 5.0}),
        environment={"KAIS_PRICES": ""},
    )
    result = await world.run()
    assert result.failure is not None
    assert result.failure.message == (
        "the price of model house is unknown, so its budget cannot be held; add the price to the "
        "values of the chart (agents.prices), or remove the budget"
    )
    assert world.calls == []


async def test_an_unknown_price_without_a_budget_is_counted_in_tokens(tmp_path):
    world = World(tmp_path, ANSWER, environment={"KAIS_PRICES": ""})
    result = await world.run()
    assert (result.usage.input_tokens, result.usage.cost) == (100, 0)
    assert not result.usage.is_priced


async def test_a_turn_that_asks_for_too_much_is_not_sent(tmp_path):
    spec = cell_spec(mind={"systemPrompt": "x" * 4000}, resources={"maxTokensPerTurn": 2000})
    world = World(tmp_path, ANSWER, spec=spec)
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BUDGET
    assert "resources.maxTokensPerTurn is 2000" in result.failure.message
    assert world.calls == []


async def test_the_answer_gets_what_the_request_leaves_of_a_turn(tmp_path):
    spec = cell_spec(resources={"maxTokensPerTurn": 2000})
    world = World(tmp_path, ANSWER, spec=spec)
    result = await world.run()
    assert result.failure is None
    request = world.calls[0].request
    limit = request.get("max_tokens") or request["max_completion_tokens"]
    assert 1000 < limit < 1900


async def test_a_turn_that_used_more_than_allowed_ends_the_attempt(tmp_path):
    rules = ANSWER.replace("input: 100", "input: 9000")
    world = World(tmp_path, rules, spec=cell_spec(resources={"maxTokensPerTurn": 2000}))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.message == (
        "a call of the model used 9020 tokens; resources.maxTokensPerTurn is 2000"
    )
    assert result.usage.cost == Decimal("0.0092")


@pytest.mark.parametrize(
    ("provider", "model", "own", "configured", "cost"),
    [
        (Provider.OPENAI, "gpt-4o", False, "", Decimal("0.0075")),
        (Provider.ANTHROPIC, "claude-sonnet-4-5", False, "", Decimal("0.0105")),
        (Provider.OPENAI, "gpt-4o", True, "", None),
        (Provider.OPENAI, "unheard-of", False, "", None),
        (Provider.OLLAMA, "llama3", True, "", Decimal(0)),
        (Provider.OLLAMA, "llama3", True, '{"ollama/*": {"input": "1", "output": "2"}}', "0.002"),
        (Provider.OPENAI, "house", True, PRICES, Decimal("0.006")),
        (
            *(Provider.OPENAI, "gpt-4o", False),
            *('{"openai/*": {"input": "0", "output": "0"}}', Decimal(0)),
        ),
    ],
)
def test_prices_come_from_the_configuration_then_from_the_public_list(
    provider, model, own, configured, cost
):
    price = prices.find_price(provider, model, has_own_endpoint=own, configured=configured)
    usage = CallUsage(input_tokens=1000, output_tokens=500)
    assert (price and price.cost(usage)) == (None if cost is None else Decimal(cost))


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "{", '{"a": 1}', '{"a": {"input": "1"}}', '{"a": {"input": "x", "output": "1"}}'),
        *('{"a": {"input": "-1", "output": "1"}}', '{"a": {"input": "NaN", "output": "1"}}'),
    ],
)
def test_invalid_prices_are_refused_with_an_example(text):
    with pytest.raises(AgentError, match="KAIS_PRICES is invalid: it must be JSON such as"):
        prices.find_price(Provider.OPENAI, "house", has_own_endpoint=True, configured=text)


async def test_the_ledger_equals_the_journal_of_the_model(tmp_path):
    spec = cell_spec(tools=[{"name": "list_files"}])
    world = World(tmp_path, LOOK_AND_ANSWER, spec=spec)
    result = await world.run()
    journal = Decimal(sum(c.input_tokens for c in world.calls)) + 10 * Decimal(
        sum(c.output_tokens for c in world.calls)
    )
    assert result.usage.cost == journal / 1_000_000
    rows = (
        sqlite3.connect(tmp_path / "state/ledger.db")
        .execute("SELECT state, input_tokens, output_tokens FROM call ORDER BY id")
        .fetchall()
    )
    assert rows == [("settled", 5000, 3000), ("settled", 100, 20)]
