"""The algorithms of the papers."""
