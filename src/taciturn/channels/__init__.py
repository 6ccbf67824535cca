"""Channels, through which private data leave agents: mechanisms, budgets and faults act on the messages, and the
messages are counted and charged."""
