import pytest

from knowledge_client import errors, retries

POLICY = retries.RetryPolicy(deadline_s=60, unregistered_s=30, first_s=1, longest_s=8)


def pause(failure, tries=1, elapsed_s=0.0, dice=0.0):
    return retries.retry_delay_s(POLICY, failure, attempts=tries, elapsed_s=elapsed_s, jitter=dice)


@pytest.mark.parametrize(
    "kind",
    [
        errors.Unauthenticated,
        errors.PermissionDenied,
        errors.NotFound,
        errors.Conflict,
        errors.InvalidRequest,
        errors.TooLarge,
        errors.ReadTimeout,
        errors.UnexpectedAnswer,
    ],
)
def test_what_would_fail_the_same_way_is_not_tried_again(kind):
    assert pause(kind("no")) is None


def test_pauses_double_up_to_the_longest():
    down = errors.KnowledgeUnavailable("down")

    assert [pause(down, tries=n) for n in (1, 2, 3, 4, 5, 1000)] == [0.5, 1, 2, 4, 4, 4]


def test_dice_spread_a_pause_between_half_and_all_of_it():
    assert pause(errors.KnowledgeUnavailable("down"), dice=0.5) == 0.75


def test_retry_after_is_a_lower_bound():
    assert pause(errors.QuotaExceeded("slow down", retry_after_s=9)) == 9


def test_a_pause_beyond_the_deadline_is_not_begun():
    assert pause(errors.KnowledgeUnavailable("down"), elapsed_s=59.6) is None
    assert pause(errors.QuotaExceeded("slow down", retry_after_s=90)) is None


def test_a_service_that_does_not_answer_is_given_up_before_the_deadline_when_told():
    impatient = retries.RetryPolicy(deadline_s=60, unavailable_s=5, first_s=1)
    down, full = errors.KnowledgeUnavailable("down"), errors.QuotaExceeded("slow down")
    at = {"attempts": 1, "elapsed_s": 5.0, "jitter": 0.0}

    assert retries.retry_delay_s(impatient, down, **at) is None
    assert retries.retry_delay_s(impatient, full, **at) == 0.5


def test_an_unregistered_account_is_waited_for_half_a_minute():
    unregistered = errors.PrincipalUnregistered("not yet")

    assert pause(unregistered, elapsed_s=29) == 0.5
    assert pause(unregistered, elapsed_s=30) is None
