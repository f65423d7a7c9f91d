"""Code that several kinds share."""
