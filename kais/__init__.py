"""The domain of kais: what its resources mean. Pure: no I/O, no clock."""
