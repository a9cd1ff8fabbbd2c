"""Data inside an HTML page: compact, and safe for any content."""

import gzip
import json
import math
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def script_json(value: Any) -> str:
    """JSON for a ``<script>`` element: nothing in it can end the element.

    NaN and infinity, which JSON does not have, become null.
    """
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(values: ArrayLike, kind: DTypeLike) -> str:
    """An array as little-endian bytes in base64, for a typed array in JavaScript."""
    return b64encode(np.ascontiguousarray(values, np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def packed_texts(texts: list[str]) -> str:
    """A list of texts as compressed JSON in base64; the same list gives the same bytes."""
    return b64encode(gzip.compress(json.dumps(texts).encode(), mtime=0)).decode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
