"""The knowledge service: remembers, recalls and corrects facts; keeps the ledger of runs."""
