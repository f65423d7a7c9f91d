"""The cost of calls of the model: prices, the ledger of the cell, and limits for each call."""
