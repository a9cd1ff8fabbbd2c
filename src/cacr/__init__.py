"""Self-supervised image representation learning with contrastive attraction and contrastive repulsion."""

__version__ = "0.1.0"
