"""BlueprintRevisions: whether they compile, and the ledger's statistics of their runs."""
