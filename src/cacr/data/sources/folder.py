"""A folder of images, with or without classes.

Sub-folders are classes if every image is exactly one sub-folder deep and there are at least two of them. Anything else
(images next to sub-folders, deeper nesting, a single sub-folder) is a folder without labels. ``images:PATH`` and
``imagefolder:PATH`` override this.
"""

from pathlib import Path

from cacr.data.files import FileSource
from cacr.data.registry import SOURCES, Request
from cacr.data.scan import Listing, list_images, sub_folders
from cacr.data.source import Assumption
from cacr.data.unread import photos_left_out
from cacr.errors import UserError
from cacr.shell import shell_words

_TEST_FOLDERS = ("test", "val", "validation")


@SOURCES.register("folder")
def open_folder(request: Request) -> FileSource:
    """A folder of images, with any nesting; sub-folders are classes if all images are exactly one level deep."""
    listing, train = _list_part(request)
    if not _has_classes(train or listing):
        return _label_free(request, listing)
    source = _with_classes(request, listing, train)
    return source.with_notes(
        Assumption(
            f"the {len(source.class_names or ())} sub-folders of {listing.folder} are used as classes; "
            f"if they are not, write {shell_words(f'images:{request.argument}')}"
        )
    )


@SOURCES.register("images")
def open_images(request: Request) -> FileSource:
    """A folder of images whose sub-folders are never classes."""
    return _label_free(request, _list_part(request)[0])


@SOURCES.register("imagefolder")
def open_imagefolder(request: Request) -> FileSource:
    """A folder whose direct sub-folders are always classes, with images at any depth."""
    return _with_classes(request, *_list_part(request))


def class_folders(request: Request, listing: Listing) -> FileSource:
    """A labelled source: the class of an image is the first folder of its name; other images are left out."""
    names = [name for name in listing.names if "/" in name]
    if not names:
        raise UserError(f"{listing.folder} has no sub-folders with images, so no classes")
    notes = photos_left_out(listing.others)
    if loose := len(listing.names) - len(names):
        notes.append(f"{loose:,} images directly in {listing.folder} belong to no class and are left out")
    classes = listing.top_folders()
    number = {name: label for label, name in enumerate(classes)}
    labels = [number[name.split("/", 1)[0]] for name in names]
    return FileSource(request.spec, listing.folder, names, labels=labels, class_names=classes, notes=notes)


def part_folder(request: Request) -> tuple[Path, Path | None]:
    """The folder of the wanted part and, for a test part, the folder of the train part.

    A folder has parts if it contains ``train/``, alone or with ``test/`` or ``val/``; any other folder is all train.
    If both exist, ``test/`` is the test part, except if only ``val/`` has sub-folders (ImageNet's test images have no
    labels).
    """
    folder = request.folder()
    train = folder / "train"
    tests = [folder / name for name in _TEST_FOLDERS if (folder / name).is_dir()]
    alone = sub_folders(folder) == [train]
    if not train.is_dir() or not (tests or alone):
        if request.part == "test":
            raise request.missing_part(f"{folder} is not divided into train/ and test/ or val/")
        return folder, None
    if request.part != "test":
        return train, None
    if not tests:
        raise request.missing_part(f"{folder} has neither test/ nor val/")
    return next((test for test in tests if sub_folders(test)), tests[0]), train


def _list_part(request: Request) -> tuple[Listing, Listing | None]:
    folder, train = part_folder(request)
    return list_images(folder), None if train is None else list_images(train)


def _has_classes(listing: Listing) -> bool:
    return all(name.count("/") == 1 for name in listing.names) and len(listing.top_folders()) > 1


def _with_classes(request: Request, listing: Listing, train: Listing | None) -> FileSource:
    """Class numbers of the train part, so that a class without test images does not shift the others."""
    source = class_folders(request, listing)
    return source if train is None else source.renumbered(train.top_folders())


def _label_free(request: Request, listing: Listing) -> FileSource:
    return FileSource(request.spec, listing.folder, listing.names, notes=photos_left_out(listing.others))
