"""Count habits of style that make readers read a sentence twice, in pages and docstrings.

`python tools habits [FILE ...]` prints the counts for pages and sources, or for these files.

The habits: 'what' as a noun, 'whose', a preposition before 'which' or 'whom', 'that of' and 'those of', 'of its own',
'beside', people's pronouns for software, 'so that', rare adverbs, 'stands on' for installed, and 'likewise'.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PREPOSITIONS = "in|of|on|by|to|for|from|with|at|under|after|over|through|against|between|than|as"
HABITS = {
    "what as a noun": r"(?<!\*)\bwhat\b(?![^.!?\n]*\?)",
    "whose": r"\bwhose\b",
    "preposition + which": rf"\b(?:{PREPOSITIONS})\s+(?:which|whom)\b",
    "that of": r"\b(?:that|those) of\b",
    "of its own": r"\bof (?:its|their|your|one's|his|her|our) own\b",
    "beside": r"\bbeside\b",
    "nobody": r"\b(?:nobody|whoever|everybody|who (?:sends|hears|pools|acts|listens|observes|speaks))\b",
    "so that": r"\bso that\b",
    "rare adverbs": r"\b(?:anew|likewise|at once|thereby|therein|thereof|hence)\b",
    "stands on": r"\bstands? (?:on|between|beside|behind|in)\b",
}
"""Names and patterns."""
SOURCES = ("src/taciturn", "envs", "policies", "wrappers", "bench", "papers/src")


def prose(text: str) -> str:
    """The text of a Markdown page without code, tables and mathematics."""
    text = re.sub(r"^(```+|~~~+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$", " ", text, flags=re.DOTALL)
    return "\n".join(line for line in text.split("\n") if not line.startswith("|"))


def docstrings(source: str) -> str:
    """The docstrings of a module's public objects."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            name = getattr(node, "name", "")
            text = ast.get_docstring(node)
            if text and not name.startswith("_"):
                found.append(re.sub(r"`[^`\n]*`", " ", text))
    return "\n\n".join(found)


def counted(texts: Iterable[str]) -> Counter[str]:
    """How often each habit occurs, over all texts, and the number of words."""
    found: Counter[str] = Counter()
    for text in texts:
        for name, pattern in HABITS.items():
            found[name] += len(re.findall(pattern, text, re.IGNORECASE))
        found["words"] += len(text.split())
    return found


def pages() -> list[Path]:
    """README and the pages that are written by hand or made from stored results."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def modules() -> list[Path]:
    """The modules of the package."""
    return sorted({file for folder in SOURCES for file in (ROOT / folder).rglob("*.py")})


def main(arguments: list[str]) -> None:
    named = {file: [Path(file)] for file in arguments}
    groups = named or {"pages": pages(), "docstrings": modules()}
    for title, some in groups.items():
        found = counted((prose if f.suffix == ".md" else docstrings)(f.read_text(encoding="utf-8")) for f in some)
        total = sum(found[name] for name in HABITS)
        print(f"{title}: {total} in {found['words']:,} words;", ", ".join(f"{name} {found[name]}" for name in HABITS))


if __name__ == "__main__":
    main(sys.argv[1:])
