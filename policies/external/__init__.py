"""External agents as policies: functions, models of learning libraries, and files saved by these libraries."""
