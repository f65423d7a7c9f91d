"""Convert errors to messages and exit statuses; only this package writes error messages."""
