from cacr.randomness import generator, mixed_seed, numpy_generator


def test_a_seed_depends_on_every_key_and_on_their_number() -> None:
    keys = [(), (0,), (0, 0), (1,), (1, 0), (0, 1), (1, 2), (2, 1), (1, 2, 0)]
    seeds = {mixed_seed(purpose, *key) for purpose in ("crop", "views") for key in keys}
    assert len(seeds) == 2 * len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_same_place_draws_the_same_numbers() -> None:
    assert generator("crop", 1, 2).initial_seed() == generator("crop", 1, 2).initial_seed()
    assert numpy_generator("order", 3).integers(1000) == numpy_generator("order", 3).integers(1000)
