"""Base classes and functions shared by reference, classic and learned policies."""
