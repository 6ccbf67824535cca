"""Agents designed to use what others say, with memory, in settings found on training streams."""
