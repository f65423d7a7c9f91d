"""A process of its own that looks at large batches while this one writes others."""
