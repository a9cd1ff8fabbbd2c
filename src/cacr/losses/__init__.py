"""Objectives over embeddings of shape (views, images, dim), with their pairs, reductions and measures."""

from cacr.losses.align_uniform import AlignUniformLoss
from cacr.losses.barlow_twins import BarlowTwinsLoss
from cacr.losses.byol import BYOLLoss
from cacr.losses.cacr import CACRLoss
from cacr.losses.clip import CLIPLoss
from cacr.losses.cmc import CMCLoss
from cacr.losses.engine.pairs import Pairs, image_text, in_batch, labelled, momentum, queued
from cacr.losses.engine.ring import Ring
from cacr.losses.hard_negative import HardNegativeLoss
from cacr.losses.info_nce import InfoNCELoss
from cacr.losses.objective import OBJECTIVES, NotFiniteError, Objective
from cacr.losses.released import ReleasedMoCoV3Loss, released_moco_v2, released_small_scale
from cacr.losses.simsiam import SimSiamLoss
from cacr.losses.swav import SwAVLoss
from cacr.losses.triplet import TripletLoss

__all__ = [
    "OBJECTIVES",
    "AlignUniformLoss",
    "BYOLLoss",
    "BarlowTwinsLoss",
    "CACRLoss",
    "CLIPLoss",
    "CMCLoss",
    "HardNegativeLoss",
    "InfoNCELoss",
    "NotFiniteError",
    "Objective",
    "Pairs",
    "ReleasedMoCoV3Loss",
    "Ring",
    "SimSiamLoss",
    "SwAVLoss",
    "TripletLoss",
    "image_text",
    "in_batch",
    "labelled",
    "momentum",
    "queued",
    "released_moco_v2",
    "released_small_scale",
]
