import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kais import durations


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m10s", 5410), ("0h1s", 1), ("007s", 7)]
)
def test_is_a_duration(text, seconds):
    assert durations.parse(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "0h0m0s", "10", "1.5h", "10m1h", "1d", "-5s", " 5s", "5s\n", "٣s", "h"]
)
def test_is_no_duration(text):
    words = re.escape(f'must be a duration above zero such as 90s, 10m or 1h30m10s, got "{text}"')
    with pytest.raises(ValueError, match=words):
        durations.parse(text)


@given(st.integers(1, 10**6))
def test_written_duration_reads_back(seconds):
    duration = timedelta(seconds=seconds)
    assert durations.parse(durations.format_duration(duration)) == duration
