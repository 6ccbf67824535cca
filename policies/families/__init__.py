"""Base classes and helper functions that reference, classic and learned policies share."""
