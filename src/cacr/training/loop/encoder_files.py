"""Write the encoder of a run, with its text encoder and the first layer of its head if there are any."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from cacr.encoders import KEPT_FIRST_LAYERS, save_encoder, save_head1
from cacr.training.building.captions import save_text
from cacr.training.building.job import Position, Training


def write_encoder(job: Training, position: Position, folder: Path, measured: dict[str, Any]) -> None:
    """Write the encoder, with its last measurements."""
    encoder = job.method.encoder
    training = job.summary(position) | {"diagnostics": measured}
    save_encoder(folder, encoder, replace(encoder.info, training=training))
    save_text(job, folder)
    if job.settings.head in KEPT_FIRST_LAYERS:
        save_head1(folder, job.method.head, encoder)
