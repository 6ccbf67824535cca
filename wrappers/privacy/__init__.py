"""What is done to private data on its way out of an agent, what it costs, and whether the claim holds."""
