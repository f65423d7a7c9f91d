"""Text for people: columns, wrapping, pages of one object."""
