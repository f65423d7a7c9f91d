"""Pure rules of the service: access, equality, statistics. No I/O, no clock."""
