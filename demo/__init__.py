"""The demonstration model: what it learns, how it is trained, and how it is examined."""
