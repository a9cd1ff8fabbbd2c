"""The image-text framework: images against their captions, as in CLIP."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn

from cacr.encoders import Encoder
from cacr.encoders.text import CLIP, KeptCaptions, build_tower
from cacr.frameworks.framework import FRAMEWORKS, Facts, Framework, NegativeCount, Shared, encode_views
from cacr.frameworks.gather import exchanged
from cacr.losses import Objective, image_text

MOST_CAPTIONS = 16
"""Captions of an image in one step, at most."""

NumberOfCaptions = Annotated[int, Field(ge=1, le=MOST_CAPTIONS)]
Width = Annotated[int, Field(ge=8, le=8192)]
Layers = Annotated[int, Field(ge=1, le=200)]
Context = Annotated[int, Field(ge=4, le=4096)]


@FRAMEWORKS.register("image_text")
class ImageText(Framework):
    """CLIP: images against captions; positives and negatives of a query are of the other side.

    An image's V crops are queries with its C captions as positives and the captions of the other images as
    negatives; each caption is a query with the V crops as positives. The views end with the captions: tokens
    (captions, images, length) for a text tower that is trained, features (captions, images, dim) for one that is not.
    Likewise the images may be features (views, images, feature_dim) where the image encoder is not trained.

    Args:
        encoder: as for :class:`Framework`.
        head: image features -> embeddings.
        objective: pairs -> named parts of the loss.
        text_head: dimension of the text features -> a head, from these to embeddings.
        text_encoder: ``clip``, from scratch, or a local folder of Hugging Face (safetensors, tokenizer.json).
        text_trained: whether the text tower is trained; default: only ``clip`` is.
        text_width: of the transformer of ``clip``.
        text_layers: of the transformer of ``clip``.
        text_context: tokens of a caption, at most; longer ones are cut.
        image_trained: whether the image encoder is trained; without it features of fixed crops are computed once.
        captions: of each image in a step, drawn anew in every epoch; ``all``: as many as an image has.
        shared: as for :class:`Framework`.
    """

    reads_captions = True
    fewest_views = 1
    default_views = 1
    default_preset = "clip"
    default_optimizer = "adamw"
    meaningless_options: ClassVar = frozenset({"negatives"})

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        *,
        text_head: Callable[[int], nn.Module],
        text_encoder: str = CLIP,
        text_trained: bool | None = None,
        text_width: Width = 512,
        text_layers: Layers = 12,
        text_context: Context = 77,
        image_trained: bool = True,
        captions: NumberOfCaptions | Literal["all"] = 1,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(encoder, head, objective, **shared)
        if captions == "all":
            raise ValueError("captions must be a number here: how many an image has is known from the data")
        self.captions = captions
        self.image_trained = image_trained
        encoder.requires_grad_(image_trained)
        tower = build_tower(text_encoder, width=text_width, layers=text_layers, context=text_context)
        self.text_head = text_head(tower.dim)
        self.text_trained = text_encoder == CLIP if text_trained is None else text_trained
        if self.text_trained:
            self.text_tower = tower
        # In a tuple a module is no part of this one: what is not trained need not be in every checkpoint.
        self._tower = (tower.requires_grad_(self.text_trained),)
        self._kept = KeptCaptions(tower, ())

    @property
    def tower(self) -> Any:
        """The text tower, trained or not."""
        return self._tower[0]

    def train(self, mode: bool = True) -> Self:
        """As of every module; an encoder that is not trained stays at rest."""
        super().train(mode)
        if not self.image_trained:
            self.encoder.eval()
        return self

    def keep_captions(self, sentences: Iterable[str]) -> None:
        """Compute the features of sentences that will be read, where the tower is not trained."""
        if not self.text_trained:
            device = next(self.head.parameters()).device
            self._kept = KeptCaptions(self.tower.to(device), sentences)

    def read_captions(self, chosen: Sequence[Sequence[str]]) -> Tensor:
        """What follows the views: tokens (captions, images, length), or features where the tower is not trained.

        Args:
            chosen: the captions of each image, as many as ``captions`` says.
        """
        flat = [sentences[number] for number in range(self.captions) for sentences in chosen]
        values: Tensor = self.tower.tokenise(flat).values if self.text_trained else self._kept(flat)
        return values.reshape(self.captions, len(chosen), -1)

    @torch.no_grad()
    def embed_captions(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings (n, dim) of sentences by the text side as it is, for measurements."""
        device = next(self.head.parameters()).device
        found: Tensor = self.text_head(self.tower.to(device).encode(sentences).to(device))
        return found

    def blank_captions(self, images: int) -> list[Tensor]:
        """Captions without words, for a step that is only counted or timed."""
        if self.text_trained:
            return [torch.zeros(self.captions, images, self.tower.context, dtype=torch.long)]
        return [torch.ones(self.captions, images, self.tower.dim)]

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """(views + captions, images, dim): the embeddings of all crops, then those of the captions."""
        *images, texts = views
        features = [self._features(crops) for crops in images]
        seen = encode_views(features, self.head, batch_norm=self.batch_norm)
        through = (self.text_tower, self.text_head) if self.text_trained else (self.text_head,)
        return torch.cat([seen, encode_views([texts], *through, batch_norm=self.batch_norm)])

    def _features(self, crops: Tensor) -> Tensor:
        """(views, images, feature_dim) of crops (views, images, 3, size, size), or of what is features already."""
        if crops.dim() == 3:
            return crops
        with torch.set_grad_enabled(self.image_trained and torch.is_grad_enabled()):
            return encode_views([crops], self.encoder, batch_norm=self.batch_norm)

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Images against captions and captions against images (see :class:`Framework`)."""
        (z,), ring = exchanged(self.exchange, queries)
        images, texts = z[: -self.captions], z[-self.captions :]
        return self.objective.parts(image_text(images, texts, ring=ring))

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        return NegativeCount(images - 1, "captions, or images, of the others in the batch")

    @classmethod
    def refusal(cls, objective: Objective, *, local: bool = False) -> str | None:
        """As of every framework; an objective that needs ``cross`` negatives has them here, and no other ones."""
        if objective.needs_shared_keys:
            return objective.needs_shared_keys
        why = super().refusal(objective, local=local)
        return None if why == objective.fixed_negatives and objective.negatives == "cross" else why

    @classmethod
    def default_head(cls, transformer: bool) -> str:
        """A linear layer on either side, as in CLIP."""
        return "linear"

    @classmethod
    def complete_options(cls, given: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
        """With the number of captions in the place of ``all``."""
        options = super().complete_options(given, facts)
        if options.get("captions") == "all":
            options["captions"] = min(MOST_CAPTIONS, max(1, facts.captions))
        return options

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """Settings of another tower."""
        if options.get("text_encoder", CLIP) == CLIP:
            return []
        unused = sorted({"text_width", "text_layers"} & options.keys())
        return [
            f"{name} is of the text encoder {CLIP}, and changes nothing here: leave it out" for name in unused
        ]
