"""When to stop waiting for client updates (Jiang 2020, chapter 3)."""
