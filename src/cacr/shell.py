"""Commands in messages, ready to paste into a shell."""

import shlex

from cacr.files import printable


def shell_words(*words: object) -> str:
    """Words of a command line, quoted where needed, safe to print.

    Example:
        >>> shell_words("cacr", "report", "my runs/first")
        "cacr report 'my runs/first'"
    """
    return shlex.join(printable(str(word)) for word in words)


def resume_command(run: object, *options: str) -> str:
    """The command that continues the run in a folder."""
    return shell_words("cacr", "pretrain", "--out", run, "--resume", *options)
