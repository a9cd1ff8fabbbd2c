"""Text encoders (towers), and the text side of an encoder: text encoder and heads."""

from cacr.encoders.text.build import CLIP, build_tower
from cacr.encoders.text.files import Heads, has_text_side, own_tower, save_text_side
from cacr.encoders.text.kept import KeptCaptions
from cacr.encoders.text.side import TextSide
from cacr.encoders.text.tower import TextTower, Tokens

__all__ = [
    "CLIP",
    "Heads",
    "KeptCaptions",
    "TextSide",
    "TextTower",
    "Tokens",
    "build_tower",
    "has_text_side",
    "own_tower",
    "save_text_side",
]
