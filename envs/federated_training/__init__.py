"""Round stopping with a model that is actually trained (Jiang 2020, section 3.4)."""
