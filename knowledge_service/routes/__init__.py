"""The HTTP interface: one module per resource, each a thin layer over use cases or the store."""
