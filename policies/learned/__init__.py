"""Agents that learn: Stable-Baselines3 and tabular."""
