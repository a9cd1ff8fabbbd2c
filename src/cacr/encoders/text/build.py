"""Text towers by what ``--text-encoder`` names."""

from cacr.encoders.text.clip_tower import ClipTower
from cacr.encoders.text.folder_tower import FolderTower
from cacr.encoders.text.tower import TextTower
from cacr.reading.files import user_path

CLIP = "clip"
"""The name of the tower that is trained from scratch; any other is a folder."""


def build_tower(name: str, *, width: int = 512, layers: int = 12, context: int = 77) -> TextTower:
    """A text tower.

    Args:
        name: ``clip``, with random weights, or a local folder of Hugging Face.
        width: Of the transformer of ``clip``.
        layers: Of the transformer of ``clip``.
        context: Tokens of a sentence, at most.

    Raises:
        UserError: the folder does not hold a text encoder, or an extra is missing.
    """
    return ClipTower(width, layers, context) if name == CLIP else FolderTower(user_path(name), context)
