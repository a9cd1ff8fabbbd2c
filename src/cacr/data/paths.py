"""File names out of files that somebody else wrote."""

from pathlib import PureWindowsPath

from cacr.errors import UserError


def inside(name: str, where: str) -> str:
    """The name, if it stays inside its folder: relative, and without a way up.

    Raises:
        UserError: says ``where`` the name was found.
    """
    windows = PureWindowsPath(name)  # takes both kinds of slashes for what they are
    if not name or "\0" in name or windows.drive or windows.root or ".." in windows.parts:
        raise UserError(f"{where}: the file name {name[:200]!r} leads out of its folder; it is refused")
    return name
