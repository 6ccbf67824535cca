"""Studies, their runner, their store, statistics and the report."""
