"""ImageNet and its subsets: folders of images named after WordNet synsets."""

import re
from importlib.resources import files

from cacr.data.files import FileSource
from cacr.data.registry import SOURCES, Request
from cacr.data.scan import list_images, sub_folders
from cacr.data.sources.folder import class_folders, part_folder
from cacr.errors import UserError

_SYNSET = re.compile(r"n\d{8}")


@SOURCES.register("imagenet")
def open_imagenet(request: Request) -> FileSource:
    """ImageNet-1K: a folder with train/ and val/, each with one folder per synset."""
    return _open(request)


@SOURCES.register("imagenet100")
def open_imagenet100(request: Request) -> FileSource:
    """ImageNet-100: the 100 classes of the paper's table, from a folder of ImageNet."""
    return _open(request, imagenet100_classes())


@SOURCES.register("imagenet22k")
def open_imagenet22k(request: Request) -> FileSource:
    """ImageNet-22K: a folder with one folder per synset; no test part."""
    if request.part == "test":
        raise request.missing_part("ImageNet-22K has none; test on imagenet:PATH")
    return _open(request)


def imagenet100_classes() -> list[str]:
    """The 100 synsets of ImageNet-100, sorted."""
    return files(__package__).joinpath("imagenet100.txt").read_text().split()


def _open(request: Request, wanted: list[str] | None = None) -> FileSource:
    folder, train = part_folder(request)
    classes = [entry.name for entry in sub_folders(train or folder) if _SYNSET.fullmatch(entry.name)]
    if wanted is not None:
        missing = sorted(set(wanted) - set(classes))
        if missing:
            raise UserError(
                f"{train or folder} lacks {len(missing)} of the 100 classes of ImageNet-100, for example "
                f"{', '.join(missing[:5])}"
            )
        classes = wanted
    if not any((folder / name).is_dir() for name in classes):
        raise UserError(
            f"{folder} has no folders named after synsets, such as n01440764; "
            "sort its images into one folder per class"
        )
    return class_folders(request, list_images(folder, only=classes)).renumbered(classes)
