"""Download a named data set, only if the user allows it."""

from pathlib import Path

from cacr.errors import UserError


def fetch_archive(name: str, url: str, md5: str, root: Path) -> None:
    """Download an archive, verify its checksum, and unpack it into ``root``."""
    from torchvision.datasets.utils import download_and_extract_archive

    try:
        download_and_extract_archive(url, str(root), md5=md5)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{name} could not be downloaded from {url} to {root}: {error}") from error


def not_found(name: str, places: list[Path]) -> UserError:
    """The error for a named data set that is not on the disk."""
    looked = " or ".join(str(place) for place in places)
    return UserError(f"{name} was not found as {looked}; give its folder with --data-root, or use --download")
