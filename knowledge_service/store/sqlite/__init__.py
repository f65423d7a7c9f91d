"""The store in one SQLite file: a single writer thread, a few readers, one module per port."""
