"""Studies that compare policies, mechanisms and learners."""
