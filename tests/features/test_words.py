"""Classes as words."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cacr.encoders.text import TextSide
from cacr.errors import UserError
from cacr.features.words import Prompts, class_vectors, read_prompts, readable


def test_names_become_readable() -> None:
    assert readable("traffic_light") == "traffic light"
    assert readable("n01440764") == "tench"  # a synset of ImageNet
    assert readable("x7", Prompts(["{}"], {"x7": "a seventh thing"})) == "a seventh thing"


def test_imagenets_prompts_are_clips() -> None:
    from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES, OPENAI_IMAGENET_TEMPLATES

    prompts = read_prompts("imagenet")
    assert prompts.templates == [template("{}") for template in OPENAI_IMAGENET_TEMPLATES]
    assert list(prompts.names.values()) == list(IMAGENET_CLASSNAMES) and "github.com/openai" in prompts.source


def test_a_file_gives_templates_and_names(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a photo of a {}\n\n{} in the snow\n")
    assert read_prompts(str(tmp_path / "a.txt")).templates == ["a photo of a {}", "{} in the snow"]
    (tmp_path / "b.json").write_text(json.dumps({"templates": ["{}"], "names": {"a": "b"}}))
    assert read_prompts(str(tmp_path / "b.json")).names == {"a": "b"}
    (tmp_path / "c.json").write_text(json.dumps({"names": {"x7": "a seventh thing"}}))
    only_names = read_prompts(str(tmp_path / "c.json"))
    assert readable("x7", only_names) == "a seventh thing"
    assert only_names.templates == read_prompts("plain").templates


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a {name}", "unknown field {name}"),
        ("a {!r}", "unknown field {!r}"),
        ("a {:>9}", "unknown field {:>9}"),
        ("a dog", "has no {}"),
        ("a {", "cannot be read"),
        ("", "1 to 1,000"),
    ],
)
def test_a_wrong_template_is_told(template: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(template)
    with pytest.raises(UserError) as caught:
        read_prompts(str(tmp_path / "a.txt"))
    assert message in str(caught.value)


class _Letters(nn.Module):
    """Sentences to counts of letters: a tower whose features can be computed by hand."""

    dim = 26

    def encode(self, sentences: list[str]) -> torch.Tensor:
        return torch.tensor([[float(s.count(chr(97 + n))) for n in range(26)] for s in sentences])


def test_a_class_is_the_unit_mean_of_unit_vectors_of_its_sentences() -> None:
    side = TextSide(_Letters(), nn.Identity(), nn.Identity(), 1.0)  # type: ignore[arg-type]
    prompts = Prompts(["a photo of a {}", "the {}"])
    found = class_vectors(side, ["dog", "cat"], prompts).numpy()
    for row, name in zip(found, ("dog", "cat"), strict=True):
        vectors = []
        for sentence in (f"a photo of a {name}", f"the {name}"):
            counts = np.array([sentence.count(chr(97 + n)) for n in range(26)], dtype=float)
            vectors.append(counts / np.linalg.norm(counts))
        mean = np.mean(vectors, axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), rtol=1e-5)
