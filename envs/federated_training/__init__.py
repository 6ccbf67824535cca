"""Round stopping with a model that really learns (Jiang 2020, section 3.4)."""
