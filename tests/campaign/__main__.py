"""`python -m tests.campaign --seed N` plays a life again; `--total 10000` plays so many nights of new lives."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress

from tests.campaign.campaign import NIGHTS, command
from tests.campaign.lives import Attempt, attempt, shortest

BATCH = 40  # lives that are played by the same processes, which grow


def main() -> int:
    """Play; returns 1 if a life failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="the first life (default: any)")
    parser.add_argument("--nights", type=int, default=NIGHTS, help="how many nights a life has")
    parser.add_argument("--only", help="of these nights, only what happens at these places")
    parser.add_argument("--total", type=int, default=0, help="play so many nights, in new lives, on all cores")
    parser.add_argument("--stop", action="store_true", help="stop at the first life that fails")
    arguments = parser.parse_args()
    if arguments.total:
        return many(arguments.seed, -(-arguments.total // arguments.nights), arguments.nights, stop=arguments.stop)
    return one(arguments.seed, arguments.nights, arguments.only.split(",") if arguments.only else None)


def many(first: int, lives: int, nights: int, *, stop: bool) -> int:
    """Play so many lives, and count what has happened."""
    print(f"{lives} lives of {nights} nights from seed {first}", flush=True)
    played: Counter[str] = Counter()
    failed, began, playing = 0, time.monotonic(), on_all_cores(range(first, first + lives), nights)
    for done, (_, events, failure) in enumerate(playing, 1):
        played += events
        if failure is not None:
            failed += 1
            print(f"{failure.sentence[:300]}\n{failure.command}", flush=True)
        if done % 10 == 0 or done == lives or (stop and failed):
            spent = time.monotonic() - began
            print(f"{done * nights} nights, {played.total()} events, {spent:.0f} s; {failed} lives failed", flush=True)
        if stop and failed:
            playing.close()
    print("\n".join(f"{count:7} {name}" for name, count in sorted(played.items())))
    return 1 if failed else 0


def on_all_cores(seeds: Sequence[int], nights: int) -> Generator[Attempt]:
    """Play the lives of some seeds, each as soon as a core is free. Closing the generator ends all lives."""
    for begin in range(0, len(seeds), BATCH):
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
            try:
                yield from (
                    life.result()
                    for life in as_completed(
                        pool.submit(attempt, seed, nights) for seed in seeds[begin : begin + BATCH]
                    )
                )
            except GeneratorExit:
                end(pool)
                raise


def end(pool: ProcessPoolExecutor) -> None:
    """End all lives of a pool, waiting lives as well; each removes the folder."""
    pool.shutdown(wait=False, cancel_futures=True)
    while workers := multiprocessing.active_children():
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid or 0, signal.SIGINT)
        time.sleep(0.2)


def one(seed: int, nights: int, only: list[str] | None) -> int:
    """Play a life; of a life that fails, find the shortest that still does."""
    _, played, failure = attempt(seed, nights, only)
    if failure is None:
        print(f"It holds: {dict(sorted(played.items()))}")
        return 0
    print(failure.text, flush=True)
    if only is None:
        print("Leaving out what is not needed for it to fail ...", flush=True)

        def fails(places: list[str]) -> bool:
            again = attempt(seed, failure.nights, places)[2]
            return again is not None and again.sentence[:40] == failure.sentence[:40]

        left = shortest(failure.places, fails)
        if (last := attempt(seed, failure.nights, left)[2]) is not None:
            print(last.text)
        print(command(seed, failure.nights, left))
    return 1


if __name__ == "__main__":
    sys.exit(main())
