"""Check file names that come from files of others."""

from pathlib import PureWindowsPath

from cacr.errors import UserError


def inside(name: str, where: str) -> str:
    """Return the name if it stays inside its folder: relative, and without ``..``.

    Raises:
        UserError: says ``where`` the name was found.
    """
    windows = PureWindowsPath(name)  # understands both kinds of slashes
    if not name or "\0" in name or windows.drive or windows.root or ".." in windows.parts:
        raise UserError(f"{where}: the file name {name[:200]!r} leads out of its folder: it is refused")
    return name
