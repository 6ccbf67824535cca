"""Channels, through which private data leaves agents: what a mechanism, a budget and faults make of a message, and what
is counted and charged for it."""
