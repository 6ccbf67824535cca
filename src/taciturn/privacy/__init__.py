"""Privacy on its own: mechanisms, samplers, composition, the ledger and budgets. Nothing here imports a world or a policy."""
