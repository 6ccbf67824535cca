"""The studies; each module here registers its own when `taciturn.bench.study.load_studies` imports it."""
