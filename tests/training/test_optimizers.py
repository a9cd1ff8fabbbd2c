"""LARS against its equations, and the rates that the papers used."""

import torch

from cacr.training.lars import LARS


def test_lars_equals_its_equations_and_spares_biases() -> None:
    torch.manual_seed(0)
    weight, bias, zero = torch.randn(3, 4), torch.randn(3), torch.zeros(2, 2)
    trained = [torch.nn.Parameter(x.clone()) for x in (weight, bias, zero)]
    optimizer = LARS(trained, lr=0.7, momentum=0.9, weight_decay=0.3, trust=0.02)
    speed = [torch.zeros_like(x) for x in (weight, bias, zero)]
    for step in range(3):
        gradients = [torch.randn_like(x) for x in trained]
        for w, g in zip(trained, gradients, strict=True):
            w.grad = g.clone()
        optimizer.param_groups[0]["lr"] = 0.7 - 0.1 * step
        optimizer.step()
        update = gradients[0] + 0.3 * weight
        rate = 0.02 * weight.square().sum().sqrt() / update.square().sum().sqrt()
        speed[0] = 0.9 * speed[0] + rate * update
        speed[1] = 0.9 * speed[1] + gradients[1]
        rate = 0.02 * zero.norm() / (gradients[2] + 0.3 * zero).norm() if zero.norm() > 0 else 1.0
        speed[2] = 0.9 * speed[2] + rate * (gradients[2] + 0.3 * zero)
        weight, bias, zero = (
            w - (0.7 - 0.1 * step) * v for w, v in zip((weight, bias, zero), speed, strict=True)
        )
    for w, expected in zip(trained, (weight, bias, zero), strict=True):
        torch.testing.assert_close(w.detach(), expected)
