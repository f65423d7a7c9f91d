"""BlueprintRevisions: whether they compile, and what the ledger has of their runs."""
