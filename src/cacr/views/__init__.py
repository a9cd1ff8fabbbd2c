"""Make many views of every image: batched augmentation, with the same distribution as torchvision's."""

from cacr.views.augmentation import Augmentation
from cacr.views.presets import PRESETS, Preset, preset_for, probe_test, probe_train, shorter_side
from cacr.views.sheet import contact_sheet, fitted
from cacr.views.strong import strengthened
from cacr.views.views import Views

__all__ = [
    "PRESETS",
    "Augmentation",
    "Preset",
    "Views",
    "contact_sheet",
    "fitted",
    "preset_for",
    "probe_test",
    "probe_train",
    "shorter_side",
    "strengthened",
]
