"""The file as a database: connections, the write queue, transactions, the write-ahead log."""
