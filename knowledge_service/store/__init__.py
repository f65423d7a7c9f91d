"""Implementations of the `Store` port; SQL lives here and in `migrations` only."""
