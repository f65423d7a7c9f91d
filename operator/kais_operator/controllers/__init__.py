"""One folder for each kind: `observe` reads what its decision needs, `decide` is pure."""
