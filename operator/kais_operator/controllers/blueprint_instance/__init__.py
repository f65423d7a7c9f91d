"""BlueprintInstances: their revision, parameters, children and runs."""
