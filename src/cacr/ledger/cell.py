"""The unit of a ledger: one training with what is measured on it, named by all that decides it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

FORMAT = 1
"""Version of a cell's record; part of its digest, because another version may measure otherwise."""

Subject = Literal["encoder", "start"]
"""What a cell measures: a trained encoder, or the weights before training and raw pixels beside them."""


@dataclass(frozen=True)
class Cell:
    """One training and its measurements.

    Attributes:
        subject: what is measured.
        settings: of ``cacr.pretrain``, the seed among them; where data lies is no part of it.
        evaluation: of ``cacr.evaluate``; empty where the training's own figures are all that is asked for.
    """

    subject: Subject
    settings: Mapping[str, Any]
    evaluation: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """Of the training and of the evaluation."""
        return int(self.settings["seed"])

    @property
    def content(self) -> dict[str, Any]:
        """Everything that decides the cell, as plain values."""
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
        """Sixteen digits: equal for equal content only."""
        return _digest(self.content)

    @property
    def training(self) -> str:
        """The same of the training alone: cells that judge one training in several ways share its run folder."""
        return _digest({name: self.content[name] for name in ("format", "settings")})

    @property
    def words(self) -> str:
        """What it is, for progress and messages."""
        names = ("recipe", "method", "framework", "objective", "data", "imbalance")
        parts = [str(self.settings[name]) for name in names if self.settings.get(name) not in (None, "none")]
        about = "before training" if self.subject == "start" else " ".join(parts)
        return f"{about}, seed {self.seed} ({self.digest})"


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()
