"""``head1.safetensors`` next to ``encoder.safetensors``: the first layer of the head used in its training.

SimCLR v2 fine-tunes from this layer, not from the encoder's features.
"""

from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import nn

from cacr.config import FORMAT
from cacr.encoders.encoder import Encoder
from cacr.encoders.heads import KEPT_FIRST_LAYERS, build_head, first_layers
from cacr.encoders.reader_file import weights_digest
from cacr.errors import UserError
from cacr.files import check_format, write_atomically
from cacr.reading.files import require_file
from cacr.reading.foreign import foreign
from cacr.reading.memory import require_memory
from cacr.reading.tensors import misfit

HEAD1 = "head1.safetensors"


def save_head1(folder: Path, head: nn.Module, encoder: Encoder) -> None:
    """Write the first layer of a head, with a fingerprint of the encoder's weights."""
    state = {name: value.cpu().contiguous() for name, value in first_layers(head).state_dict().items()}
    facts = {"format": str(FORMAT), "encoder": weights_digest(encoder)}
    write_atomically(folder / HEAD1, save(state, facts))


def load_head1(path: Path, encoder: Encoder) -> nn.Module:
    """Load the first layer of a head, in evaluation mode: features (n, feature_dim) -> (n, hidden).

    Raises:
        UserError: the file is damaged, belongs to other weights, or was written by a newer version.
    """
    require_file(path)
    require_memory(path.stat().st_size, str(path))
    with foreign(f"{path} is not a readable safetensors file"), safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        # Copied: a tensor that is mapped to its file would crash the process if the file is truncated.
        stored = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (it is not a mapping)
    version = metadata.get("format", "")
    check_format(int(version) if version.isdecimal() and len(version) < 10 else None, path)
    weight = stored.get("0.weight")
    if weight is None or weight.ndim != 2 or weight.shape[1] != encoder.feature_dim or not len(weight):
        raise UserError(f"{path} is damaged: it has no layer that takes {encoder.feature_dim} features")
    with torch.device("meta"):  # initial weights and further layers are not needed
        layers = first_layers(build_head(KEPT_FIRST_LAYERS[0], weight.shape[1], dim=1, hidden=len(weight)))
    if wrong := misfit(layers.state_dict(), stored):
        raise UserError(f"{path} is damaged: {wrong}")
    if metadata.get("encoder") != weights_digest(encoder):
        raise UserError(
            f"{path} belongs to other weights than the encoder next to it: the run was killed while writing them. "
            "Resume the run, which writes both again"
        )
    layers.load_state_dict(stored, assign=True)
    return layers.eval()
