"""Captions of a run: which ones a step reads, problems with them, and the text encoder that is saved."""

from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.data import Batch, Source, StreamSource
from cacr.data.captions import drawn, most_captions, with_sentences
from cacr.encoders.text import Heads, TextSide, own_tower, save_text_side
from cacr.errors import UserError
from cacr.frameworks import FRAMEWORKS, Framework, ImageText
from cacr.runs.folder import RunFolder
from cacr.training.building.job import Training
from cacr.training.building.networks import hidden_width

S = TypeVar("S", bound=PretrainSettings)

COUNTED = 10_000
"""Number of captions that are checked for their length."""


def read_captions(method: ImageText, batch: Batch, seed: int, epoch: int) -> Tensor:
    """Captions of a batch, as the framework takes them; an image gets the same captions in any process."""
    assert batch.captions is not None  # checked by with_captions
    named = zip(batch.index.tolist(), batch.captions, strict=True)
    return method.read_captions([drawn(each, method.captions, seed, epoch, n) for n, each in named])


def with_captions(source: Source, settings: PretrainSettings) -> Source:
    """The source without empty captions, if the framework reads captions.

    Raises:
        UserError: the source has no captions, or some of its images have none.
    """
    if not FRAMEWORKS[settings.framework].reads_captions:
        if source.captions is None:
            return source
        return source.with_notes(
            f"the captions of {source.name} are not used: --method clip trains with them"
        )
    if isinstance(source, StreamSource):  # captions come together with the images
        if most_captions(source) == 0:
            raise _no_captions(source)
        streamed = source.with_notes()
        streamed.captioned = True
        return streamed
    if source.captions is None:
        raise _no_captions(source)
    return with_sentences(source)


def notes_on_captions(method: Framework, source: Source) -> list[str]:
    """Notes: how many captions are cut, and what is computed only once."""
    if not isinstance(method, ImageText):
        return []
    sentences = list(islice(chain.from_iterable(source.captions or ()), COUNTED))
    notes = [*method.tower.notes_on_length(sentences)]
    if not method.text_trained:
        notes.append("the text encoder is not trained: the features of captions are computed once")
    return notes


def save_text(job: Training, folder: Path) -> None:
    """Write the text encoder of a run next to its image encoder, if there is one."""
    method, settings = job.method, job.settings
    if isinstance(method, ImageText):
        side = TextSide(method.tower, method.text_head, method.head, scale_of(method))
        hidden = hidden_width(settings, method.encoder)
        heads = Heads(settings.head, hidden, settings.dim)
        save_text_side(folder, side, heads, method.encoder, trained=method.text_trained)


def scale_of(method: Framework) -> float:
    """The factor on cosines in the softmax over captions: learned by CLIP, 2 t- in CACR."""
    objective = method.objective
    if (log_scale := getattr(objective, "log_scale", None)) is not None:
        return float(log_scale.detach().exp().clamp(max=objective.most))
    if (learned := getattr(objective, "learned", None)) is not None:
        return float(2 * learned.now().detach())
    if (t_neg := getattr(objective, "t_neg", None)) is not None:
        return float(2 * t_neg)
    return float(1 / getattr(objective, "temperature", 0.07))


def with_own_tower(settings: S, run: RunFolder) -> S:
    """Settings of an existing run, with the text encoder in its folder instead of its original path."""
    if not FRAMEWORKS[settings.framework].reads_captions or (tower := own_tower(run.path)) is None:
        return settings
    return settings.model_copy(
        update={"framework_options": {**settings.framework_options, "text_encoder": str(tower)}}
    )


def as_given(settings: ResolvedSettings, given: PretrainSettings) -> ResolvedSettings:
    """Resolved settings with the path of the text encoder that the user gave, as the run folder stores them."""
    if "text_encoder" not in given.framework_options:
        return settings
    named = {"text_encoder": given.framework_options["text_encoder"]}
    return settings.model_copy(update={"framework_options": {**settings.framework_options, **named}})


def _no_captions(source: Source) -> UserError:
    has = "classes only" if source.labels is not None else "images only"
    return UserError(
        f"{source.name} has no captions ({has}), but this method needs them: give pairs:FILE.jsonl, wds: or hf: data "
        "with texts; for images without captions choose another --method, such as cacr"
    )
