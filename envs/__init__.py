"""The worlds of tacit."""
