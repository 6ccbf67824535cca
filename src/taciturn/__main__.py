"""`python -m taciturn`: the command line, for interpreters whose scripts are not on the path."""

from taciturn.cli import main

main()
