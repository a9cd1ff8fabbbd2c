"""``python -m cacr``: the same as ``cacr``."""

from cacr.cli import main

main()
