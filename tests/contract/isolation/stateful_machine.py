"""Plays cases: what a tenant gets together with the others, and alone."""

from __future__ import annotations

import multiprocessing
import os
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.contract.isolation import operations, worlds

# Looking a fact up by every way costs more than a recall, so one case in so many does it too.
_LOOKED_UP = 10


def differences_on_every_core(folder: Path, cases: int, a_world: int, *, part: int = 0) -> int:
    """Count the cases in which a tenant sees a difference; another part has other worlds.

    Each world has this many cases. Worlds are played side by side.
    """
    count = -(-cases // a_world)
    seeds = range(part * count, (part + 1) * count)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(count, os.cpu_count() or 1), mp_context=spawn) as pool:
        played = pool.map(in_one_world, [folder] * count, seeds, [a_world] * count)
        return sum(played)


def in_one_world(folder: Path, seed: int, cases: int) -> int:
    """Count the cases in the world of a seed in which a tenant sees a difference."""
    own_path = folder / str(seed)
    own_path.mkdir()
    dice = random.Random(seed)  # noqa: S311 - cases of a test
    world = worlds.world(seed)
    combined_stored = worlds.Stored(worlds.open_store(own_path / "all.db")).tell(world)
    alone = [
        worlds.Stored(worlds.open_store(own_path / f"{n}.db")).tell(world.alone(n))
        for n in range(worlds.TENANTS)
    ]
    # What is there of runs and events costs a pass over the log, so each tenant reads it once.
    result = sum(
        operations.record(combined_stored, home) != operations.record(alone[tenant], home)
        for tenant, home in enumerate(world.homes)
    )
    for case in range(cases):
        tenant = case % worlds.TENANTS
        home, recall_request = world.homes[tenant], worlds.question(dice)
        same = worlds.recalled(combined_stored, home, recall_request) == worlds.recalled(
            alone[tenant], home, recall_request
        )
        if case % _LOOKED_UP == 0:
            # One of all facts, and one that an act made, such as the copy of a promotion.
            for least in (0, len(world.facts)):
                key = dice.choice(sorted(key for key in alone[tenant].ids if key >= least))
                there = worlds.looked_up(combined_stored, home, key)
                same = same and there == worlds.looked_up(alone[tenant], home, key)
        result += not same
    for stored in (combined_stored, *alone):
        stored.store.close()
    for file in own_path.iterdir():
        file.unlink()
    return result
