"""Trace the street of `scenarios/library/site.npz` with Sionna RT: twenty people on two pavements, ten seconds of walk.

    pip install sionna-rt==2.2.0      # in an environment of its own; on a CPU it needs LLVM 19
    PYTHONPATH=. python benchmarks/site_trace.py site.npz

The scene is Sionna RT's own street canyon. The server stands on a roof, devices walk at 1 to 1.5 m/s.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from phyloop.channel import from_sionna_rt

NUM_DEVICES, NUM_SNAPSHOTS, SNAPSHOT_S, CARRIER_HZ = 20, 100, 0.1, 3.5e9
MOST_PATHS = 6


def main(file: str) -> None:
    """Write the trace."""
    import sionna.rt as rt

    scene = rt.load_scene(rt.scene.simple_street_canyon)
    scene.frequency = CARRIER_HZ
    scene.tx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
    scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="dipole", polarization="V")
    scene.add(rt.Receiver("server", position=[-33.0, 11.0, 32.0]))
    rng = np.random.default_rng(2026)
    place, speed = rng.uniform(-40.0, 60.0, NUM_DEVICES), rng.uniform(1.0, 1.5, NUM_DEVICES)
    aside = np.where(np.arange(NUM_DEVICES) % 2 == 0, -4.0, 4.0)
    way = np.where(rng.random(NUM_DEVICES) < 0.5, -1.0, 1.0)
    people = []
    for number in range(NUM_DEVICES):
        velocity = [float(way[number] * speed[number]), 0.0, 0.0]
        people.append(rt.Transmitter(f"device-{number}", position=[0.0, 0.0, 1.5], velocity=velocity))
        scene.add(people[-1])
    time_s = SNAPSHOT_S * np.arange(NUM_SNAPSHOTS)
    positions = np.empty((NUM_SNAPSHOTS, NUM_DEVICES, 3), np.float32)
    positions[..., 0], positions[..., 1], positions[..., 2] = place + time_s[:, None] * way * speed, aside, 1.5
    solver = rt.PathSolver()

    def snapshots() -> Iterator[Any]:
        for snapshot in range(NUM_SNAPSHOTS):
            for person, where in zip(people, positions[snapshot].tolist(), strict=True):
                person.position = where
            yield solver(scene, max_depth=3, samples_per_src=20_000, seed=1 + snapshot)
            gc.collect()
            print(f"snapshot {snapshot + 1} of {NUM_SNAPSHOTS}", end="\r", file=sys.stderr)

    from_sionna_rt(
        snapshots(),
        file,
        most_paths=MOST_PATHS,
        snapshot_s=SNAPSHOT_S,
        carrier_frequency_hz=CARRIER_HZ,
        position_m=positions,
        source="benchmarks/site_trace.py, Sionna RT 2.2.0, simple_street_canyon, depth 3",
    )


if __name__ == "__main__":
    main(sys.argv[1])
