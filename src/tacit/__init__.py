"""Environments in which agents learn together without telling each other what they know."""

__version__ = "0.1.0"
