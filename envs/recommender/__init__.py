"""The social recommender; see `taciturn.envs.recommender.world`."""
