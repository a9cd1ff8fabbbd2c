"""Files in a folder of images that are not read, and the reasons."""

from collections import Counter
from collections.abc import Mapping

_HEIC = (".heic", ".heif")
_RAW = (
    *(".cr2", ".cr3", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".dng", ".raf"),
    *(".orf", ".rw2", ".pef", ".srw", ".3fr", ".iiq", ".kdc", ".x3f"),
)
_VIDEO = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v")
_PACKED = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar")
_NOT_DEEP = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".apng", ".webp", ".avif", ".jp2", ".gif"),
    *(".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm"),
)

WITHOUT_SUFFIX = "without suffix"
SPECIAL = "pipe, socket or device"
HIDDEN = "hidden"

_REASONS: dict[str, str] = {
    **dict.fromkeys(_HEIC, "HEIC photos are not read: convert them to JPEG"),
    **dict.fromkeys(_RAW, "raw photos are not read: export them as JPEG or TIFF"),
    **dict.fromkeys(_VIDEO, "videos are not read: extract frames as JPEG, for example with ffmpeg"),
    **dict.fromkeys(_PACKED, "archives are not opened: unpack them, or use shards with wds:PATTERN"),
    **dict.fromkeys(_NOT_DEEP, "deep: reads only .npy, TIFF and PNG: leave out deep:, or convert them"),
    ".svg": "vector graphics are not read: export them as PNG",
    ".pdf": "documents are not read: export their pages as PNG",
    ".psd": "Photoshop files are not read: export them as PNG",
    ".npy": "arrays in a folder are read with deep:FOLDER",
    ".npz": "arrays are read if the file itself is given, not inside a folder",
    WITHOUT_SUFFIX: "their content is not a readable image",
    SPECIAL: "reading it might never end",
    HIDDEN: "names that start with a dot, and system folders, are skipped",
}


def photos_left_out(others: Mapping[str, int]) -> list[str]:
    """One line per kind of photo that is not read, to inform users before training."""
    kinds = {"HEIC": (_HEIC, "convert them to JPEG"), "raw": (_RAW, "export them as JPEG or TIFF")}
    lines = []
    for name, (suffixes, advice) in kinds.items():
        if count := sum(others.get(suffix, 0) for suffix in suffixes):
            lines.append(f"{count:,} {name} files are left out; {advice} to use them")
    return lines


def unread_files(others: Counter[str]) -> list[str]:
    """One line per kind of file that is not read, with its number and the reason."""
    return [
        f"{count:,} {kind}: {_REASONS.get(kind, 'not a known kind of image')}"
        for kind, count in others.most_common()
    ]
