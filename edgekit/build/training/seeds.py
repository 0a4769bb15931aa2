"""Random numbers that depend on nothing but their place in a training: what was interrupted goes on as if it had not been."""

import numpy as np

__all__ = ["GROUPS", "LAYERS", "ORDER", "PHOTO", "SIDES", "STEP", "seed_of"]

ORDER, PHOTO, STEP, LAYERS, GROUPS, SIDES = range(6)
"""What is drawn: orders of photos, crops and colours of one, dropout in one step, new layers, orders of steps, photo sides."""


def seed_of(seed: int, *place: int) -> int:
    """A training's seed and non-negative numbers that say which draw it is -> 63 bits, unrelated for any two places."""
    return int(np.random.SeedSequence((seed, *place)).generate_state(1, np.uint64)[0] >> 1)
