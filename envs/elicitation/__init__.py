"""Paying strangers for private data (Jiang 2020, chapter 2)."""
