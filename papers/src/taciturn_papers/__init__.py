"""Reproductions of published figures and tables, one package per paper."""
