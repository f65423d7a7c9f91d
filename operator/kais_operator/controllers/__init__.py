"""One folder for each kind: `observe` reads the inputs of a decision, `decide` is pure."""
