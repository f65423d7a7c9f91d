"""The ports of the service over tables, one module each, and the unit of work of a write."""
