"""Who acts in a world: reference algorithms, textbook baselines, and learned agents."""
