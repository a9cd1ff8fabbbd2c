"""A folder of images with any number of channels and up to 16 bits: microscopes, satellites, X-rays."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from torch import Tensor

from cacr.data.files import FileSource
from cacr.data.levels import SUFFIXES, preview, read_levels
from cacr.data.registry import SOURCES, Request
from cacr.data.scan import list_images
from cacr.data.source import Assumption
from cacr.data.sources.folder import part_folder
from cacr.errors import UnreadableImageError
from cacr.files import printable


class DeepSource(FileSource):
    """Files that are read without loss; all must have the number of channels of the first one."""

    deep = True

    def __init__(
        self,
        name: str,
        root: Path,
        names: Sequence[str],
        *,
        labels: Sequence[int] | None = None,
        class_names: Sequence[str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(name, root, names, labels=labels, class_names=class_names, notes=notes)
        self._channels = len(read_levels(self.paths[0], printable(self.describe(0))))

    @property
    def channels(self) -> int:
        """Number of channels of every image."""
        return self._channels

    def read_pixels(self, index: int) -> Tensor:
        """The image as levels (channels, h, w)."""
        where = printable(self.describe(index))
        found = read_levels(self.paths[index], where)
        if len(found) != self._channels:
            raise UnreadableImageError(
                where, f"{len(found)} channels, but the first image has {self._channels}"
            )
        return found

    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """The image as a picture for people."""
        return preview(self.read_pixels(index))


@SOURCES.register("deep")
def open_deep(request: Request) -> DeepSource:
    """A folder of .npy, TIFF or PNG images with 1 to N channels of 8 or 16 bits, read without loss."""
    folder, train = part_folder(request)
    listing = list_images(folder, suffixes=SUFFIXES)
    classes = (listing if train is None else list_images(train, suffixes=SUFFIXES)).top_folders()
    if len(classes) < 2 or any(name.count("/") != 1 for name in listing.names):
        return DeepSource(request.spec, folder, listing.names)
    number = {name: label for label, name in enumerate(classes)}
    names = [name for name in listing.names if name.split("/", 1)[0] in number]
    labels = [number[name.split("/", 1)[0]] for name in names]
    note = Assumption(f"the {len(classes)} sub-folders of {folder} are used as classes")
    return DeepSource(request.spec, folder, names, labels=labels, class_names=classes, notes=[note])
