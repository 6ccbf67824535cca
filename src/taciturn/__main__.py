"""`python -m taciturn`: the command line, for interpreters with scripts that are not on the path.

Python itself would run a `taciturn.py` of the current folder instead; `python -P -m taciturn` would not.
"""

from taciturn.cli import main

main()
