"""Images and captions: CLIP's loss is open_clip's, and CACR's terms are the paper's between the two sides."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from cacr.losses import CACRLoss, CLIPLoss, image_text

IMAGES, DIM = 6, 5


def _two(views: int = 1, captions: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    made = (torch.randn(n, IMAGES, DIM, dtype=torch.float64, generator=draw) for n in (views, captions))
    first, second = (x.requires_grad_() for x in made)
    return first, second


def test_clip_is_open_clips_in_value_and_gradient() -> None:
    import open_clip  # here, because it takes long to import

    images, texts = _two()
    ours = CLIPLoss(temperature=0.1).double()
    loss = ours(image_text(images, texts))
    found = torch.autograd.grad(loss, [images, texts, ours.log_scale])
    log_scale = torch.tensor(np.log(10.0), requires_grad=True)
    theirs = open_clip.ClipLoss()(
        normalize(images[0], dim=-1), normalize(texts[0], dim=-1), log_scale.exp().double()
    )
    wanted = torch.autograd.grad(theirs, [images, texts, log_scale])
    torch.testing.assert_close(loss, theirs)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other.to(mine.dtype), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("views", "captions"), [(1, 1), (4, 1), (3, 2)])
def test_cacr_between_images_and_captions_is_the_oracles(views: int, captions: int) -> None:
    """Both directions; a query's positives are its image's vectors on the other side, weighted by pi+."""
    t_pos, t_neg = 1.3, 2.5
    images, texts = _two(views, captions)
    parts = CACRLoss(t_pos=t_pos, t_neg=t_neg).parts(image_text(images, texts))
    x, y = (normalize(z.detach(), dim=-1).numpy() for z in (images, texts))
    attracted, repelled = [], []
    for here, there in ((x, y), (y, x)):
        for v in range(len(here)):
            for i in range(IMAGES):
                near = np.array([np.sum((here[v, i] - there[w, i]) ** 2) for w in range(len(there))])
                weight = np.exp(t_pos * near) / np.exp(t_pos * near).sum()
                attracted.append(weight @ near)
                for w in range(len(there)):
                    far = np.array([np.sum((here[v, i] - there[w, j]) ** 2) for j in range(IMAGES) if j != i])
                    share = np.exp(-t_neg * far) / np.exp(-t_neg * far).sum()
                    repelled.append(-share @ far)
    assert parts["attraction"].item() == pytest.approx(np.mean(attracted), rel=1e-9)
    assert parts["repulsion"].item() == pytest.approx(np.mean(repelled), rel=1e-9)


def test_a_learned_t_neg_starts_as_a_fixed_one_and_only_falls() -> None:
    images, texts = _two()
    fixed, learned = CACRLoss(t_neg=3.0), CACRLoss(t_neg=3.0, t_neg_schedule="learned").double()
    parts = learned.parts(image_text(images, texts))
    torch.testing.assert_close(parts["loss"], fixed(image_text(images, texts)), rtol=1e-6, atol=1e-9)
    assert parts["t_neg"].item() == pytest.approx(3.0)
    assert learned.learned is not None
    (slope,) = torch.autograd.grad(parts["loss"], learned.learned.log)
    step = 1e-5
    near = [CACRLoss(t_neg=3.0 * np.exp(sign * step))(image_text(images, texts)).item() for sign in (1, -1)]
    assert slope.item() == pytest.approx((near[0] - near[1]) / (2 * step), rel=1e-5)
    assert slope.item() > 0  # descent lowers t-


def test_a_learned_t_neg_stays_within_its_bounds() -> None:
    learned = CACRLoss(t_neg=3.0, t_neg_schedule="learned").learned
    assert learned is not None
    for given, bound in ((-10.0, 0.5), (10.0, 50.0)):
        learned.log.data.fill_(given)
        assert learned.now().item() == bound
    with pytest.raises(ValueError, match=r"must start from 0\.5 to 50"):
        CACRLoss(t_neg=80.0, t_neg_schedule="learned")


@pytest.mark.parametrize("beyond", [0.0, 2.0])
def test_a_scale_that_reached_its_bound_can_leave_it(beyond: float) -> None:
    """As open_clip does it: the parameter itself is put back before each step, and has a gradient there."""
    images, texts = _two()  # of which many captions are nearer to other images: a lower scale is better
    ours = CLIPLoss(most=100.0)
    ours.log_scale.data.fill_(np.log(100.0) + beyond)
    parts = ours.parts(image_text(images.float(), texts.float()))
    assert parts["scale"].item() == pytest.approx(100.0)
    ours.begin_step(0, 1)
    assert ours.log_scale.item() == pytest.approx(np.log(100.0))
    loss = ours(image_text(images.float(), texts.float()))
    torch.autograd.backward(loss)
    assert ours.log_scale.grad is not None and ours.log_scale.grad.item() > 0
    ours.log_scale.data -= 0.01 * ours.log_scale.grad
    assert ours.parts(image_text(images.float(), texts.float()))["scale"].item() < 99.0


def test_a_learned_t_neg_that_fell_past_its_bound_is_put_back() -> None:
    objective = CACRLoss(t_neg=3.0, t_neg_schedule="learned")
    assert objective.learned is not None
    objective.learned.log.data.fill_(-10.0)
    objective.begin_step(0, 1)
    assert objective.learned.log.item() == pytest.approx(np.log(0.5))
