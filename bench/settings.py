"""Settings of learners in a user's YAML file."""

from functools import cache
from pathlib import Path
from typing import Any

from taciturn.validation import missing_extra, shown


@cache
def settings_in(file: Path) -> dict[str, dict[str, Any]]:
    """`{algorithm: settings}` of a file.

    Each entry is named after an algorithm. Its `settings` are the parameters by name, and its `found` describes in free
    text how they were found, under the keys `command`, `seeds` and `budget`.

    Raises:
        ValueError: the file is not of this form; the message names the file and the key.
        ImportError: pyyaml is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise missing_extra("settings of learners need pyyaml", "rl") from error
    try:
        found = yaml.safe_load(file.read_bytes())  # in UTF-8 or UTF-16
    except (yaml.YAMLError, OSError) as error:
        raise ValueError(f"{file} must be a YAML file of settings: {' '.join(str(error).split())}") from error
    for name, entry in _mapping(file, "the file", found).items():
        for key, value in _mapping(file, name, entry).items():
            if key not in ("found", "settings"):
                raise ValueError(f"{file}: {name}.{key} must be called found or settings")
            _mapping(file, f"{name}.{key}", value)
        if "settings" not in entry:
            raise ValueError(f"{file}: {name} must have settings")
    return {name: entry["settings"] for name, entry in found.items()}


def _mapping(file: Path, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{file}: {key} must be a mapping with names as keys, not {shown(value)}")
    return value
