"""`python -m taciturn`: the command line, for interpreters that install scripts outside the path.

If the current folder holds a `taciturn.py`, Python runs that file instead; with `python -P -m taciturn` it does not.
"""

from taciturn.cli import main

main()
