"""Hand-designed agents with memory that use received messages, with settings tuned on training streams."""
