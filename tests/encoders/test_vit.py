"""Fixed positions, frozen patches and local crops of vision transformers."""

import math

import torch
from torch.nn.functional import interpolate

from cacr.encoders import build_encoder, fix_positions, freeze_patches, patch_problem
from cacr.encoders.vit import sincos_positions

NAME = "vit_tiny_patch16_224"


def test_positions_are_sines_and_cosines_of_column_and_row() -> None:
    table = sincos_positions(3, 8)
    for place in range(9):
        y, x = divmod(place, 3)
        expected = [
            function(axis * frequency)
            for axis in (x, y)
            for function in (math.sin, math.cos)
            for frequency in (1.0, 0.01)
        ]
        torch.testing.assert_close(table[place], torch.tensor(expected))


def test_positions_and_patches_stay_and_the_class_token_has_no_place() -> None:
    torch.manual_seed(0)
    encoder = build_encoder(NAME, image_size=48)
    fix_positions(encoder.backbone)
    freeze_patches(encoder.backbone)
    table = encoder.backbone.pos_embed
    assert table.shape == (1, 10, 192) and table[0, 0].count_nonzero() == 0
    torch.testing.assert_close(table[0, 1:], sincos_positions(3, 192))
    held = {name for name, p in encoder.backbone.named_parameters() if not p.requires_grad}
    assert held == {"pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"}
    bound = math.sqrt(6 / (3 * 16 * 16 + 192))
    weight = encoder.backbone.patch_embed.proj.weight
    assert 0.95 * bound < weight.abs().max() <= bound


def test_local_crops_pass_with_interpolated_positions() -> None:
    torch.manual_seed(0)
    encoder = build_encoder(NAME, image_size=64, any_size=True).eval()
    fixed = build_encoder(NAME, image_size=64).eval()
    fixed.load_state_dict(encoder.state_dict())
    whole, local = torch.randn(2, 3, 64, 64), torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(encoder(whole), fixed(whole))
    # A model of the local size whose table of positions is that of the large one, shrunk as an image.
    small = build_encoder(NAME, image_size=32).eval()
    table = encoder.backbone.pos_embed.detach()
    grid = table[:, 1:].reshape(1, 4, 4, 192).permute(0, 3, 1, 2)
    shrunk = interpolate(grid, (2, 2), mode="bicubic", antialias=True, align_corners=False)
    positions = torch.cat([table[:, :1], shrunk.permute(0, 2, 3, 1).reshape(1, 4, 192)], dim=1)
    small.load_state_dict(encoder.state_dict() | {"backbone.pos_embed": positions})
    torch.testing.assert_close(encoder(local), small(local))


def test_sizes_that_patches_do_not_divide_are_a_problem() -> None:
    assert patch_problem(NAME, 96) is None
    assert "multiple, such as 96" in (patch_problem(NAME, 100) or "")
    assert patch_problem("resnet18", 33) is None
