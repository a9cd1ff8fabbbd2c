"""Features of images: compute them in memory or in a file, and search by them."""

from cacr.features.embed import WrittenFeatures, embed, embed_source
from cacr.features.encode import Features, encode
from cacr.features.search import Found, Neighbour, search_source

__all__ = [
    "Features",
    "Found",
    "Neighbour",
    "WrittenFeatures",
    "embed",
    "embed_source",
    "encode",
    "search_source",
]
