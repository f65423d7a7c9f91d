"""Upgrades of a file of an older version: migrations, and what they copy into the log."""
