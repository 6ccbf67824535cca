"""Base classes and functions that reference, classic and learned policies share."""
