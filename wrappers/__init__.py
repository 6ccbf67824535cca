"""What stands between a policy and a world: privacy, faults, and adaptors to RL libraries."""
