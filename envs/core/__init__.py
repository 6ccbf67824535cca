"""What every world is built from."""
