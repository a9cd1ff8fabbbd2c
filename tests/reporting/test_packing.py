"""Data inside the page: nothing in it can end its element, and numbers survive."""

import base64
import gzip
import json

import numpy as np
import pytest

from cacr.reporting.packing import packed, packed_texts, script_json


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--", "]]>&amp;", "\u2028", "\\u003c", "é🙂"]
)
def test_text_survives_and_cannot_end_the_script(text: str) -> None:
    written = script_json({"label": text, text: [text]})
    assert not set("<>&") & set(written) and written.isascii()
    assert json.loads(written) == {"label": text, text: [text]}


def test_what_json_lacks_is_null() -> None:
    assert (
        script_json([float("nan"), float("inf"), {"x": (-float("inf"), 1.5)}])
        == '[null,null,{"x":[null,1.5]}]'
    )


def test_arrays_are_little_endian_bytes() -> None:
    values = np.array([[1, 2], [258, 65535]])
    assert base64.b64decode(packed(values, np.uint16)) == bytes([1, 0, 2, 0, 2, 1, 255, 255])


def test_texts_are_compressed_json() -> None:
    texts = ["a", "<b>", "ü"] * 100
    assert json.loads(gzip.decompress(base64.b64decode(packed_texts(texts)))) == texts
    assert len(packed_texts(texts)) < 150
