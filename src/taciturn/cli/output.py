"""Output that several commands share."""

import json
import math
import sys
from typing import Any

import numpy as np


def interrupted(stored: str) -> None:
    """Print to standard error what an interrupted command has stored."""
    print(f"taciturn: interrupted: {stored}", file=sys.stderr)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, with null in place of numbers that JSON lacks."""
    print(json.dumps(_json_values(document)))


def _json_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_json_values(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
