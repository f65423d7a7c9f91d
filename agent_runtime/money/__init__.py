"""What calls of the model cost: prices, the ledger of the cell, and limits before each call."""
