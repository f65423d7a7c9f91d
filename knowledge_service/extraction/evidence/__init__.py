"""The check that the record of a run supports a statement of a model."""
