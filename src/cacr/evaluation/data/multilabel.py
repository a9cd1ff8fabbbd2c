"""Images that show several classes: the same file in the folder of each of them."""

import numpy as np
from numpy.typing import NDArray

from cacr.data import FileSource, Source
from cacr.errors import UserError


def merge_copies(source: Source) -> tuple[Source, NDArray[np.float32]]:
    """Take files of one name in several classes' folders for one image that shows all these classes.

    Returns:
        The source with each image once, and its labels (n, classes) of zeros and ones.

    Raises:
        UserError: the source is no folder of classes.
    """
    if not isinstance(source, FileSource) or source.labels is None or source.class_names is None:
        raise UserError(
            f"{source.name} cannot hold images of several classes: give a folder with a folder for each class, "
            "in which an image lies in the folder of every class it shows"
        )
    first: dict[str, int] = {}
    rows = [first.setdefault(path.name, number) for number, path in enumerate(source.paths)]
    kept = np.array(sorted(first.values()), dtype=np.int64)
    truth = np.zeros((len(source), len(source.class_names)), dtype=np.float32)
    truth[rows, source.labels] = 1
    return source.subset(kept), truth[kept]
