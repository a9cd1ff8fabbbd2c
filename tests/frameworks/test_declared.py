"""What frameworks and objectives declare of each other is what happens when they meet."""

from itertools import product
from typing import Any

import pytest
import torch

from cacr.frameworks import FRAMEWORKS, Facts, Framework
from cacr.losses import OBJECTIVES
from tests.frameworks.making import make_framework, make_views

OPTIONS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in OBJECTIVES]
OPTIONS += [("cacr", {"negatives": rule}) for rule in ("same", "cross", "cross_upper", "all")]
OPTIONS += [("info_nce", {"false_negatives": "attract"}), ("triplet", {"mining": "hard"})]


@pytest.mark.parametrize("local", [0, 1])
@pytest.mark.parametrize(("framework", "objective"), list(product(FRAMEWORKS, OPTIONS)), ids=str)
def test_a_framework_refuses_what_would_fail(
    framework: str, objective: tuple[str, dict[str, Any]], local: int
) -> None:
    name, options = objective
    method = make_framework(framework, name, **options).train()
    why = type(method).refusal(method.objective, local=local > 0)
    if method.objective.needs_predictor and not method.has_predictor:
        assert why is not None  # it would run, and collapse
        return
    if method.objective.needs_captions and not method.reads_captions:
        assert why is not None  # it would run, and compare images with images
        return
    if local and not method.objective.local_crops:
        assert why is not None  # it would run, and compare views of different kinds
        return
    views = make_views(3, 4, local=local, framework=framework)
    if why is None:
        method(views)["loss"].backward()
    else:
        with pytest.raises((TypeError, ValueError)) as caught:
            method(views)
        if method.gives in method.objective.takes:  # else the pairs may fail before the objective sees them
            assert str(caught.value) == why


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("local_keys", [True, False])
def test_a_queue_refuses_local_crops_exactly_where_they_change_nothing(
    symmetric: bool, local_keys: bool
) -> None:
    options = {"symmetric": symmetric}
    losses = [
        make_framework("queue", local_keys=local_keys, **options)(make_views(2, 4, local=local))["loss"]
        for local in (0, 2)
    ]
    objective = OBJECTIVES["cacr"](local_keys=local_keys)
    unused = FRAMEWORKS["queue"].unused_crops(objective, options)
    assert bool(unused) == torch.equal(*losses) == (not symmetric and not local_keys)


@pytest.mark.parametrize("name", FRAMEWORKS.names())
def test_settings_are_what_a_framework_adds_to_the_shared_arguments(name: str) -> None:
    shared = {
        "batch_norm",
        "exchange",
        "encode_chunk",
        "predictor",
        "text_head",
        "encoder",
        "head",
        "objective",
    }
    assert not shared & set(FRAMEWORKS[name].option_names())
    method = make_framework(name, batch_norm="joint", exchange="ring", encode_chunk=2)
    assert (method.batch_norm, method.exchange, method.encode_chunk) == ("joint", "ring", 2)


@pytest.mark.parametrize("name", FRAMEWORKS.names())
def test_nothing_is_wrong_with_a_framework_that_is_given_no_options(name: str) -> None:
    """``problems`` sees what was given and ``default_options``, no defaults: it must not ask for others."""
    facts = Facts(images=640, batch_size=64, steps=40, transformer=False)
    kind = FRAMEWORKS[name]
    assert kind.problems(kind.default_options(facts), facts) == []


def test_a_predictor_is_offered_where_there_is_one() -> None:
    for framework in ("in_batch", "queue"):
        why = FRAMEWORKS[framework].refusal(OBJECTIVES["byol"]()) or ""
        offered = why.partition("use framework ")[2].split(" or ")
        assert why.startswith(f"{framework} has no predictor") and "momentum" in offered
        assert all(FRAMEWORKS[name].has_predictor for name in offered)


def test_who_refuses_false_negatives_does_not_offer_them() -> None:
    loss = OBJECTIVES["info_nce"](false_negatives="attract")  # type: ignore[call-arg]
    refusals = {
        name: FRAMEWORKS[name].refusal(loss) for name in ("in_batch", "momentum", "queue", "image_text")
    }
    assert refusals["in_batch"] is None and refusals["momentum"] is None
    for name in ("queue", "image_text"):
        assert (refusals[name] or "").endswith("negatives 'all' of the batch, without a queue or captions")


def test_the_base_holds_what_all_frameworks_share() -> None:
    assert Framework.option_names() == FRAMEWORKS["in_batch"].option_names() == []
