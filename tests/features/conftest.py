from tests.evaluation.conftest import images, run, untrained

__all__ = ["images", "run", "untrained"]
