"""Images that show several classes: the same file in the folder of each class."""

import numpy as np
from numpy.typing import NDArray

from cacr.data import FileSource, Source
from cacr.errors import UserError


def merge_copies(source: Source) -> tuple[Source, NDArray[np.float32]]:
    """Merge files with the same name in several class folders into one image that shows all these classes.

    Returns:
        The source with each image once, and its labels (n, classes) of zeros and ones.

    Raises:
        UserError: the source is not a folder of class folders.
    """
    if not isinstance(source, FileSource) or source.labels is None or source.class_names is None:
        raise UserError(
            f"{source.name} cannot have images of several classes: give a folder with one sub-folder per class, "
            "and put an image into the folder of every class that it shows"
        )
    first: dict[str, int] = {}
    rows = [first.setdefault(path.name, number) for number, path in enumerate(source.paths)]
    kept = np.array(sorted(first.values()), dtype=np.int64)
    truth = np.zeros((len(source), len(source.class_names)), dtype=np.float32)
    truth[rows, source.labels] = 1
    return source.subset(kept), truth[kept]
