"""Jiang 2020: chapter 2 (elicitation of private data) and chapter 3 (ending rounds of federated training)."""
