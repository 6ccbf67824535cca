"""The declared studies."""
