"""A round of federated averaging, batched over 100 clients on digits, against one by one: `python
benchmarks/federated_round.py`.

The peer trains each client by itself with the same functions (so it gives the same model), as one would write it first.
One core.
"""

import statistics
import time

import numpy as np
from common import record

from taciturn.envs.core import Array
from taciturn.envs.federated_training.classifiers import Softmax, epoch_order, federated_average
from taciturn.envs.federated_training.datasets import load_digits, partition

CLIENTS, REPEATS = 100, 15


def main() -> None:
    data, rng = load_digits(), np.random.default_rng(0)
    model = Softmax(data.num_features, data.num_classes)
    samples = partition(data.train_y, CLIENTS, rng)
    sizes = (samples >= 0).sum(-1).astype(np.float64)[None]
    start = model.initial(rng)
    order = epoch_order(samples, 1, rng)

    def round_of(order_parts: list[Array]) -> Array:
        updates = [
            model.local_update(
                np.tile(start, (len(part), 1)), data.train_x, data.train_y, part, learning_rate=0.1, batch_size=10
            )
            for part in order_parts
        ]
        server = federated_average(start[None], np.concatenate(updates)[None], sizes)
        model.evaluate(server, data.test_x, data.test_y)
        return server

    together, alone = [order], list(order[:, None])
    assert np.allclose(round_of(together), round_of(alone), atol=1e-6)
    times: dict[str, list[float]] = {"batched": [], "one_by_one": []}
    for _ in range(REPEATS):
        for name, parts in (("batched", together), ("one_by_one", alone)):
            begin = time.perf_counter()
            round_of(parts)
            times[name].append(1e3 * (time.perf_counter() - begin))
    medians = {f"{name}_ms": round(statistics.median(result), 3) for name, result in times.items()}
    ratio = statistics.median(b / a for a, b in zip(times["batched"], times["one_by_one"], strict=True))
    told = f"{medians['batched_ms']} ms batched, {medians['one_by_one_ms']} ms one by one, {ratio:.1f} times faster"
    print(f"a round of {CLIENTS} clients: {told}")
    record(
        "federated_round",
        medians | {"times_faster": round(ratio, 1), "clients": CLIENTS, "repeats": REPEATS},
        ("taciturn", "numpy", "scikit-learn"),
    )


if __name__ == "__main__":
    main()
