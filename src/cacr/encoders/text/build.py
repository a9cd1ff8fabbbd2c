"""Build the text encoder that ``--text-encoder`` names."""

from cacr.encoders.text.clip_tower import ClipTower
from cacr.encoders.text.folder_tower import FolderTower
from cacr.encoders.text.tower import TextTower
from cacr.reading.files import user_path

CLIP = "clip"
"""The name of the text encoder that is trained from scratch; any other name is a folder."""


def build_tower(name: str, *, width: int = 512, layers: int = 12, context: int = 77) -> TextTower:
    """Build a text encoder.

    Args:
        name: ``clip``, with random weights, or a local Hugging Face folder.
        width: Width of the transformer of ``clip``.
        layers: Number of layers of the transformer of ``clip``.
        context: Largest number of tokens of a sentence.

    Raises:
        UserError: the folder has no text encoder, or an extra is missing.
    """
    return ClipTower(width, layers, context) if name == CLIP else FolderTower(user_path(name), context)
