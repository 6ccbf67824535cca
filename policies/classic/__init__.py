"""Textbook baselines."""
