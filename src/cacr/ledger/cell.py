"""The unit of a ledger: one training with its measurements, identified by everything that influences it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

FORMAT = 1
"""Format version of a cell's record; part of its digest, because another version may measure differently."""

Subject = Literal["encoder", "start"]
"""What a cell measures: a trained encoder, or the initial weights and raw pixels."""


@dataclass(frozen=True)
class Cell:
    """One training and its measurements.

    Attributes:
        subject: what is measured.
        settings: settings of ``cacr.pretrain``, including the seed, but not the location of data.
        evaluation: settings of ``cacr.evaluate``; empty if only metrics of the training are needed.
    """

    subject: Subject
    settings: Mapping[str, Any]
    evaluation: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """Seed of the training and of the evaluation."""
        return int(self.settings["seed"])

    @property
    def content(self) -> dict[str, Any]:
        """Everything that influences the cell, as plain values."""
        whole = {
            "format": FORMAT,
            "subject": self.subject,
            "settings": dict(self.settings),
            "evaluation": dict(self.evaluation),
        }
        plain: dict[str, Any] = json.loads(json.dumps(whole))
        return plain

    @property
    def digest(self) -> str:
        """Sixteen digits that identify the content."""
        return _digest(self.content)

    @property
    def training(self) -> str:
        """The same for the training alone: cells that evaluate one training in several ways share its run folder."""
        return _digest({name: self.content[name] for name in ("format", "settings")})

    @property
    def words(self) -> str:
        """A description, for progress and messages."""
        names = ("recipe", "method", "framework", "objective", "data", "imbalance")
        parts = [str(self.settings[name]) for name in names if self.settings.get(name) not in (None, "none")]
        about = "before training" if self.subject == "start" else " ".join(parts)
        return f"{about}, seed {self.seed} ({self.digest})"


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()
