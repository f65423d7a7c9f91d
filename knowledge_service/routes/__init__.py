"""The HTTP interface: one module per resource, each a thin layer over a flow or the store."""
