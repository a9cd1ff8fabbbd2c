"""Objectives over embeddings of shape (views, images, dim).

Each file has one objective, except ``objective.py`` (the base classes) and ``measures.py`` (metrics of the same pairs,
which are not trained). ``engine/`` has the computations. Import new objectives here.
"""

from cacr.losses.adaclr import AdaCLRLoss
from cacr.losses.align_uniform import AlignUniformLoss
from cacr.losses.ascl import ASCLLoss
from cacr.losses.barlow_twins import BarlowTwinsLoss
from cacr.losses.byol import BYOLLoss
from cacr.losses.cacr import CACRLoss
from cacr.losses.clip import CLIPLoss
from cacr.losses.cmc import CMCLoss
from cacr.losses.engine.pairs import Pairs, image_text, in_batch, labelled, momentum, positives_only, queued
from cacr.losses.engine.ring import Ring
from cacr.losses.engine.scores import Scores
from cacr.losses.hard_negative import HardNegativeLoss
from cacr.losses.info_nce import InfoNCELoss
from cacr.losses.lejepa import LeJEPALoss, sigreg
from cacr.losses.objective import OBJECTIVES, Input, NotFiniteError, Objective, PairObjective
from cacr.losses.released import ReleasedMoCoV3Loss, released_moco_v2, released_small_scale
from cacr.losses.simsiam import SimSiamLoss
from cacr.losses.swav import SwAVLoss, sinkhorn
from cacr.losses.triplet import TripletLoss
from cacr.losses.vicreg import VICRegLoss

__all__ = [
    "OBJECTIVES",
    "ASCLLoss",
    "AdaCLRLoss",
    "AlignUniformLoss",
    "BYOLLoss",
    "BarlowTwinsLoss",
    "CACRLoss",
    "CLIPLoss",
    "CMCLoss",
    "HardNegativeLoss",
    "InfoNCELoss",
    "Input",
    "LeJEPALoss",
    "NotFiniteError",
    "Objective",
    "PairObjective",
    "Pairs",
    "ReleasedMoCoV3Loss",
    "Ring",
    "Scores",
    "SimSiamLoss",
    "SwAVLoss",
    "TripletLoss",
    "VICRegLoss",
    "image_text",
    "in_batch",
    "labelled",
    "momentum",
    "positives_only",
    "queued",
    "released_moco_v2",
    "released_small_scale",
    "sigreg",
    "sinkhorn",
]
