"""Errors into messages and exit statuses: the one room that turns what failed into words."""
