"""``cacr evaluate --dry-run``: describe an evaluation without encoding or training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.evaluation.contestants import require_fit
from cacr.evaluation.data.sets import is_suite
from cacr.evaluation.settings import Evaluation
from cacr.evaluation.tasks import by_need, open_data


def describe_evaluation(run: str | Path, values: Mapping[str, Any]) -> list[str]:
    """Describe the encoder, the data, and for each protocol its settings and what it would train.

    Args:
        run: anything that :func:`cacr.load_encoder` takes.
        values: settings by name, including those of the protocols.

    Raises:
        UserError: settings are wrong, the encoder or data does not exist, a protocol cannot measure the encoder, or
            the data is a suite.
    """
    asked = Evaluation.parse(values)
    if is_suite(asked.settings.data):
        raise UserError("--dry-run works with one data set: give a folder of the suite")
    encoder = load_encoder(run, with_reader=False, download=asked.settings.download)
    require_fit([("encoder", encoder)], asked.protocols)
    info = encoder.info
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    lines = [f"encoder    {info.encoder}, {info.image_size} px, {weights / 1e6:.2f} M parameters"]
    for needs, chosen in by_need(asked.protocols).items():
        data = open_data(asked.settings, needs)
        counts = f"{len(data.train):,} training and {len(data.test):,} test images"
        lines.append(f"data       {counts}, {data.classes:,} classes; {data.split}")
        for protocol, settings in chosen.items():
            text = " ".join(f"{name}={value}" for name, value in settings.model_dump(mode="json").items())
            lines += [
                f"{protocol:<10} {text}",
                *(f"{'':<10} {line}" for line in settings.plan(info, len(data.train))),
            ]
    return lines
