"""Federated bandits with arm elimination (Li & Song 2022)."""
