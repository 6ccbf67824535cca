"""What maintainers do by hand, between releases: `python tools NAME ...`; without a name, what there is.

A tool is a file beside this one with a function `main(arguments)`; its results are in `results/`.
"""

import ast
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def tools() -> dict[str, str]:
    """The first line of the docstring of each tool, by its name."""
    results = {}
    for file in sorted(HERE.glob("[a-z]*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            results[file.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return results


def main(arguments: list[str]) -> int:
    """The exit status."""
    known = tools()
    if not arguments:
        print("python tools NAME ..., where NAME is one of")
        print("\n".join(f"  {name:20}{line}" for name, line in known.items()))
        return 0
    name, *others = arguments
    if name not in known:
        print(f"there is no tool '{name}'; there are: {' '.join(known)}", file=sys.stderr)
        return 2
    sys.path.insert(1, str(HERE.parent / "benchmarks"))  # what benchmarks and tools share
    sys.argv = [f"tools {name}", *others]
    importlib.import_module(name).main(others)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
