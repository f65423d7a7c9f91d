import pytest

from scripts import soak


def test_without_a_name_every_part_of_every_row_is_run():
    assert [row.name for row in soak.SOAKS if row.parts == 1] == [
        row.name for row, _ in soak.select_parts([]) if row.parts == 1
    ]
    assert [part for row, part in soak.select_parts([]) if row.name == "isolation"] == list(
        range(10)
    )


def test_the_parts_of_isolation_are_a_million_cases():
    rows = [row for row, _ in soak.select_parts(["isolation"])]
    assert sum(int(row.environment["KAIS_ISOLATION_CASES"]) for row in rows) == 1_000_000


def test_one_part_of_a_row_can_be_run_alone():
    ((row, part),) = soak.select_parts(["isolation:3"])
    assert (row.name, part) == ("isolation", 3)


@pytest.mark.parametrize("name", ["isolaton", "isolation:10", "kill:1"])
def test_a_row_or_part_that_is_not_there_is_named_with_those_that_are(name, capsys):
    assert soak.main([name]) == 2
    error_output = capsys.readouterr().err
    assert error_output.startswith(
        f"no such soak: {name}; there are power, routes, kill, isolation:0"
    )
