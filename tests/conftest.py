"""One thread per worker, no windows, and hypothesis examples that are the same on every run."""

import os

import pytest
from hypothesis import settings

for name, value in {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}.items():
    os.environ.setdefault(name, value)

settings.register_profile("taciturn", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("taciturn")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate-golden", action="store_true", help="write what the golden tests compare with")
