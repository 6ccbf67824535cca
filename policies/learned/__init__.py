"""Learned agents: PPO, evolution strategies, and neural bandits."""
