"""The worlds, one file each; import them by their versioned name: `from tacit.envs import round_stopping_v0`."""

from tacit.envs.round_stopping import round_stopping_v0

__all__ = ["round_stopping_v0"]
