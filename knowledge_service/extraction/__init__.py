"""The durable job that turns the record of a run into facts."""
