"""Protocols by name, what their settings tell of them, and what they find."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_type_hints

from cacr.config import Settings
from cacr.encoders import Encoder, EncoderInfo
from cacr.registry import Registry

Needs = Literal["labels", "images", "words", "captions", "boxes", "masks"]
"""What a protocol needs of its data: labels; images in classes or not; labels as words, or captions, for the text side
of an encoder; boxes of objects, or their masks."""

ASK_WORDS: tuple[Needs, ...] = ("words", "captions")
"""What only an encoder with a text side can do."""


class ProtocolSettings(Settings):
    """Settings of a protocol; the class also says what the protocol can do.

    Attributes:
        own_measure: It measures something that ``metric`` does not choose.
        several_classes: It can judge images that show several classes.
        quick: It takes seconds once features are there, so baselines are measured beside it by default.
        needs: What the data must have.
    """

    own_measure: ClassVar[bool] = False
    several_classes: ClassVar[bool] = False
    quick: ClassVar[bool] = False
    needs: ClassVar[Needs] = "labels"

    @property
    def beside(self) -> tuple[str, ...]:
        """Baselines that are measured beside it by default, where it is not ``quick``."""
        return ()

    def refusal(self, encoder: Encoder) -> str | None:
        """Why an encoder cannot be measured with these settings, known before any image is read; None where it can."""
        return None

    def plan(self, info: EncoderInfo, images: int) -> list[str]:
        """What would be trained on so many images, where the settings alone do not say it."""
        return []


@dataclass(frozen=True)
class Score:
    """What a protocol found.

    Attributes:
        value: In [0, 1]; with several draws of the labels their mean.
        spread: Standard deviation over the draws; None without draws.
        details: What else it tells, by name.
        metric: What the value is.
        also: Further measures by name, shown beside the value.
        notes: What the user should know about how it was found.
    """

    value: float
    spread: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    metric: str = "accuracy"
    also: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


PROTOCOLS: Registry[Callable[..., Score]] = Registry("protocol")
"""Name -> function of a ``task`` and of its own ``settings``, whose annotation says what kind they are."""


def settings_of(protocol: str) -> type[ProtocolSettings]:
    """The kind of settings that a protocol takes.

    Raises:
        UnknownNameError: there is no such protocol.
    """
    kind: type[ProtocolSettings] = get_type_hints(PROTOCOLS[protocol])["settings"]
    return kind
