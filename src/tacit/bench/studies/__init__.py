"""The studies; each module here registers its own when `tacit.bench.study.load_studies` imports it."""
