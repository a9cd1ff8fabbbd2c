"""Protocols by name, properties of their settings, and their scores."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_type_hints

from cacr.base_settings import Settings
from cacr.encoders import Encoder, EncoderInfo
from cacr.registry import Registry

Needs = Literal["labels", "images", "words", "captions", "boxes", "masks"]
"""What a protocol needs: labels; images, with or without classes; class names or captions, for the text encoder;
boxes of objects, or their masks."""

ASK_WORDS: tuple[Needs, ...] = ("words", "captions")
"""Needs of protocols for an encoder with a text encoder."""


class ProtocolSettings(Settings):
    """Settings of a protocol; the class also describes what the protocol can do.

    Attributes:
        own_measure: It has its own metric; ``metric`` has no effect.
        several_classes: It supports images that show several classes.
        quick: It takes seconds once features are computed, so baselines are measured by default.
        needs: What the data must have.
    """

    own_measure: ClassVar[bool] = False
    several_classes: ClassVar[bool] = False
    quick: ClassVar[bool] = False
    needs: ClassVar[Needs] = "labels"

    @property
    def default_baselines(self) -> tuple[str, ...]:
        """Default baselines, if the protocol is not ``quick``."""
        return ()

    def refusal(self, encoder: Encoder) -> str | None:
        """Why an encoder cannot be measured with these settings, checked before any image is read; None if it can."""
        return None

    def plan(self, info: EncoderInfo, images: int) -> list[str]:
        """What would be trained on this number of images, if the settings alone do not say it."""
        return []


@dataclass(frozen=True)
class Score:
    """The result of a protocol.

    Attributes:
        value: In [0, 1]; the mean if there are several draws of labels.
        spread: Standard deviation over the draws; None without draws.
        details: Further results, by name.
        metric: Name of the value.
        also: Further metrics by name, shown next to the value.
        notes: Notes for the user on how it was computed.
    """

    value: float
    spread: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    metric: str = "accuracy"
    also: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


PROTOCOLS: Registry[Callable[..., Score]] = Registry("protocol")
"""Name -> function of a ``task`` and of ``settings``, whose annotation gives their type."""


def settings_of(protocol: str) -> type[ProtocolSettings]:
    """The type of the settings of a protocol.

    Raises:
        UnknownNameError: there is no such protocol.
    """
    kind: type[ProtocolSettings] = get_type_hints(PROTOCOLS[protocol])["settings"]
    return kind
