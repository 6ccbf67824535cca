"""Agents from outside: functions, models of learning libraries, and files that these have saved, as policies."""
