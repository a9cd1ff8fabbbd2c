"""Sort a collection of images: select some, predict labels of the rest, group them."""

from cacr.sorting.group import Groups, group_images
from cacr.sorting.predict import Guesses, predict_labels
from cacr.sorting.select import Selection, select_images

__all__ = ["Groups", "Guesses", "Selection", "group_images", "predict_labels", "select_images"]
