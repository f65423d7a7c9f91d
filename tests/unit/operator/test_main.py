"""What the operator does before it starts."""

import gc

from kais_operator import __main__ as operator


def test_a_collection_does_not_visit_what_was_imported() -> None:
    imported = len(gc.get_objects())
    thresholds = gc.get_threshold()
    try:
        operator.exempt_modules_from_collection()
        assert gc.get_freeze_count() > imported / 2
        assert len(gc.get_objects()) < imported / 10
        assert gc.get_threshold()[0] > thresholds[0], "collections are as frequent as before"
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
