"""WebVision 1.0, from its published lists of files."""

from pathlib import Path

from cacr.data.files import FileSource
from cacr.data.paths import inside
from cacr.data.registry import SOURCES, Request
from cacr.errors import UserError
from cacr.reading.files import numbered_lines

_TRAIN_LISTS = ("train_filelist_google.txt", "train_filelist_flickr.txt")
_TEST_LIST = "val_filelist.txt"
_DIGITS = 5  # of a class number; there are 1,000 classes
_TEST_FOLDERS = ("val_images_256", "val_images")


@SOURCES.register("webvision")
def open_webvision(request: Request) -> FileSource:
    """WebVision 1.0: a folder with info/, google/, flickr/ and val_images_256/, as published."""
    folder = request.folder()
    if request.part == "test":
        images = next((folder / name for name in _TEST_FOLDERS if (folder / name).is_dir()), None)
        if images is None:
            raise request.missing_part(f"{folder} does not have {' or '.join(_TEST_FOLDERS)}")
        return _from_lists(request, images, [folder / "info" / _TEST_LIST])
    lists = [folder / "info" / name for name in _TRAIN_LISTS]
    present = [file for file in lists if (folder / file.stem.split("_")[-1]).is_dir()]
    if not present:
        raise UserError(f"{folder} does not have google/ or flickr/: unpack the training images there")
    source = _from_lists(request, folder, present)
    absent = [file.stem.split("_")[-1] for file in lists if file not in present]
    return (
        source.with_notes(f"{folder / absent[0]} is missing: its images are not used") if absent else source
    )


def _from_lists(request: Request, root: Path, lists: list[Path]) -> FileSource:
    """Each line is a file name and a class number."""
    names, labels = [], []
    for file in lists:
        if not file.is_file():
            raise UserError(f"{file} is missing: unpack WebVision's info.tar.gz into {file.parent}")
        for number, line in numbered_lines(file):
            name, _, label = line.rpartition(" ")
            if not name or not label.isdecimal() or len(label) > _DIGITS:
                raise UserError(f"{file}, line {number}: expected 'FILE CLASS', found {line[:80]!r}")
            names.append(inside(name, f"{file}, line {number}"))
            labels.append(int(label))
    if not names:
        raise UserError(f"{lists[0]} has no images")
    return FileSource(request.spec, root, names, labels=labels, class_names=_class_names(request, labels))


def _class_names(request: Request, labels: list[int]) -> list[str]:
    """The names in info/synsets.txt, one per line with its synset first; numbers if the file is missing."""
    count = max(labels) + 1
    file = request.folder() / "info" / "synsets.txt"
    lines = [line for _, line in numbered_lines(file)] if file.is_file() else []
    return lines if len(lines) >= count else [str(label) for label in range(count)]
