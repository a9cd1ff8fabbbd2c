"""Fit the readers of a run's encoders on its training images, after training."""

from dataclasses import replace

import numpy as np

from cacr.data import Source, StreamSource
from cacr.data.prepare import Progress
from cacr.encoders import Reader, load_encoder
from cacr.encoders.files import WEIGHTS, reader_file
from cacr.encoders.reader_file import save_reader, weights_digest
from cacr.feature_view import images_at_once
from cacr.features.encode import encode
from cacr.features.machine import choose_machine
from cacr.features.reader import MOST_IMAGES, fit_reader
from cacr.randomness import numpy_generator
from cacr.reading.files import kind_of
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.building.data import prepare_data


def save_readers(run: RunFolder, progress: Progress | None = None) -> None:
    """Fit the default reader to the last and the best encoder of a run, and write each next to its weights.

    Held-out images are not used. With too few images nothing is written, because reading raw needs no file.

    Args:
        run: The run folder.
        progress: Called with the number of images encoded and the total.

    Raises:
        UserError: the images no longer exist, or a file cannot be written.
    """
    settings = Run.open(run.path).settings
    source = _sample(prepare_data(settings, run).training)
    machine = choose_machine([source], workers=settings.workers)
    fitted: dict[str, Reader] = {}
    for folder in (run.path, run.best):
        weights = folder / WEIGHTS
        if kind_of(weights) is None:
            continue
        encoder = load_encoder(weights, with_reader=False)
        digest = weights_digest(encoder)
        if digest not in fitted:  # the last encoder is often also the best one
            tolerated, few = settings.max_unreadable, images_at_once(encoder.info.image_size)
            limited = replace(machine, batch_size=few)
            values = encode(encoder, source, limited, progress, max_unreadable=tolerated).values
            fitted[digest] = fit_reader(values)
        if fitted[digest].kind != "raw":
            save_reader(reader_file(weights), fitted[digest], encoder)


def _sample(source: Source) -> Source:
    """At most :data:`MOST_IMAGES` of the images; the first images of a stream, because random access to it is slow."""
    if len(source) <= MOST_IMAGES:
        return source
    if isinstance(source, StreamSource):
        return source.subset(np.arange(MOST_IMAGES))
    drawn = numpy_generator("reader images").choice(len(source), MOST_IMAGES, replace=False)
    return source.subset(np.sort(drawn))
