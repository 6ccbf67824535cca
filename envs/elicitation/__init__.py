"""Buying private data from self-interested individuals (Jiang 2020, chapter 2)."""
