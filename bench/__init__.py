"""Studies, their runner and store, statistics, and the report."""
