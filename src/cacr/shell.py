"""Commands that messages suggest, as they can be pasted into a shell."""

import shlex

from cacr.files import printable


def shell_words(*words: object) -> str:
    """Words of a command line, those quoted that need it, safe to print.

    Example:
        >>> shell_words("cacr", "report", "my runs/first")
        "cacr report 'my runs/first'"
    """
    return shlex.join(printable(str(word)) for word in words)


def resume_command(run: object, *options: str) -> str:
    """What continues the run in a folder."""
    return shell_words("cacr", "pretrain", "--out", run, "--resume", *options)
