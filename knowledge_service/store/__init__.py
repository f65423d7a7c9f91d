"""Implementations of the `Store` port. SQL is only here and in `migrations`."""
