"""Fetching a named set, only when the user has asked for it."""

from pathlib import Path

from cacr.errors import UserError


def fetch_archive(name: str, url: str, md5: str, root: Path) -> None:
    """Download and unpack an archive into ``root``; its checksum is verified first."""
    from torchvision.datasets.utils import download_and_extract_archive

    try:
        download_and_extract_archive(url, str(root), md5=md5)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{name} could not be downloaded from {url} to {root}: {error}") from error


def not_found(name: str, places: list[Path]) -> UserError:
    """The error for a named set that is not on the disk."""
    looked = " or ".join(str(place) for place in places)
    return UserError(f"{name} was not found as {looked}; name its folder with --data-root, or use --download")
