"""The image-text framework: images compared with captions, as in CLIP."""

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
"""Largest number of captions per image in one step."""

NumberOfCaptions = Annotated[int, Field(ge=1, le=MOST_CAPTIONS)]
Width = Annotated[int, Field(ge=8, le=8192)]
Layers = Annotated[int, Field(ge=1, le=200)]
Context = Annotated[int, Field(ge=4, le=4096)]


@FRAMEWORKS.register("image_text")
class ImageText(Framework):
    """CLIP: images compared with captions; positives and negatives of an image are captions, and vice versa.

    The V crops of an image are queries with its C captions as positives and the captions of other images as
    negatives; each caption is a query with the V crops as positives. The last of the views are the captions: tokens
    (captions, images, length) for a trained text encoder, features (captions, images, dim) for one that is not
    trained. In the same way, images may be features (views, images, feature_dim) if the image encoder is not trained.

    Args:
        encoder: as for :class:`Framework`.
        head: image features -> embeddings.
        objective: pairs -> named parts of the loss.
        text_head: function of the dimension of text features, that makes a head from these to embeddings.
        text_encoder: ``clip`` (trained from scratch), or a local Hugging Face folder (safetensors, tokenizer.json).
        text_trained: whether the text encoder is trained; default: only for ``clip``.
        text_width: width of the transformer of ``clip``.
        text_layers: number of layers of the transformer of ``clip``.
        text_context: largest number of tokens of a caption; longer ones are cut.
        image_trained: whether the image encoder is trained; if not, features of fixed crops are computed once.
        captions: number of captions per image in a step, drawn again in every epoch; ``all``: as many as an image has.
        shared: as for :class:`Framework`.
    """

    reads_captions = True
    fewest_views = 1
    default_views = 1
    default_preset = "clip"
    default_optimizer = "adamw"
    meaningless_options: ClassVar = Framework.meaningless_options | {"negatives"}

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
            raise ValueError(
                "captions must be a number here: their number per image is known only from the data"
            )
        self.captions = captions
        self.image_trained = image_trained
        encoder.requires_grad_(image_trained)
        tower = build_tower(text_encoder, width=text_width, layers=text_layers, context=text_context)
        self.text_head = text_head(tower.dim)
        self.text_trained = text_encoder == CLIP if text_trained is None else text_trained
        if self.text_trained:
            self.text_tower = tower
        # A module in a tuple is not registered: weights that are not trained need not be in every checkpoint.
        self._tower = (tower.requires_grad_(self.text_trained),)
        self._kept = KeptCaptions(tower, ())

    @property
    def tower(self) -> Any:
        """The text encoder, trained or not."""
        return self._tower[0]

    def train(self, mode: bool = True) -> Self:
        """Set the training mode; an encoder that is not trained stays in evaluation mode."""
        super().train(mode)
        if not self.image_trained:
            self.encoder.eval()
        return self

    def keep_captions(self, sentences: Iterable[str]) -> None:
        """Compute the features of sentences that will be read, if the text encoder is not trained."""
        if not self.text_trained:
            device = next(self.head.parameters()).device
            self._kept = KeptCaptions(self.tower.to(device), sentences)

    def read_captions(self, chosen: Sequence[Sequence[str]]) -> Tensor:
        """The last of the views: tokens (captions, images, length), or features if the text encoder is not trained.

        Args:
            chosen: the captions of each image, ``captions`` of them.
        """
        flat = [sentences[number] for number in range(self.captions) for sentences in chosen]
        values: Tensor = self.tower.tokenise(flat).values if self.text_trained else self._kept(flat)
        return values.reshape(self.captions, len(chosen), -1)

    @torch.no_grad()
    def embed_captions(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings (n, dim) of sentences by the current text encoder, for measurements."""
        device = next(self.head.parameters()).device
        found: Tensor = self.text_head(self.tower.to(device).encode(sentences).to(device))
        return found

    def blank_captions(self, images: int) -> list[Tensor]:
        """Empty captions, for a step that is only estimated or timed."""
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
        """(views, images, feature_dim) of crops (views, images, 3, size, size), or of features."""
        if crops.dim() == 3:
            return crops
        with torch.set_grad_enabled(self.image_trained and torch.is_grad_enabled()):
            return encode_views([crops], self.encoder, batch_norm=self.batch_norm)

    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Compare images with captions and captions with images (see :class:`Framework`)."""
        (z,), ring = exchanged(self.exchange, queries)
        images, texts = z[: -self.captions], z[-self.captions :]
        return self.objective.parts(image_text(images, texts, ring=ring))

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query (see :class:`Framework`)."""
        return NegativeCount(images - 1, "captions, or images, of the others in the batch")

    @classmethod
    def refusal(cls, objective: Objective, *, local: bool = False) -> str | None:
        """As in every framework; an objective that needs ``cross`` negatives always has them here."""
        if objective.needs_shared_keys:
            return objective.needs_shared_keys
        why = super().refusal(objective, local=local)
        return None if why == objective.fixed_negatives and objective.negatives == "cross" else why

    @classmethod
    def default_head(cls, transformer: bool) -> str:
        """A linear layer for images and for text, as in CLIP."""
        return "linear"

    @classmethod
    def complete_options(cls, given: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
        """Replace ``all`` by the number of captions."""
        options = super().complete_options(given, facts)
        if options.get("captions") == "all":
            options["captions"] = min(MOST_CAPTIONS, max(1, facts.captions))
        return options

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """Problems: settings of another text encoder."""
        if options.get("text_encoder", CLIP) == CLIP:
            return []
        unused = sorted({"text_width", "text_layers"} & options.keys())
        return [f"{name} has an effect only with the text encoder {CLIP}: leave it out" for name in unused]
