"""How fast mechanisms draw, on one core: `python benchmarks/mechanisms.py` (with the extra `secure` for OpenDP's
times).

All cases take turns within one process. Prints nanoseconds per draw (per bit of a one-hot vector; per histogram for
perturb_counts).
"""

import math
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from common import record

from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    TreeAggregation,
)

SIZE, OPTIONS, HISTOGRAMS, REPEATS = 10**6, 10, 1000, 21
FEW = 10**4  # draws of those that take microseconds each
Cases = dict[str, tuple[int, Callable[[], Any]]]


def one_call_a_message(values: list[int], q: float, rng: np.random.Generator) -> list[list[int]]:
    """Randomised response as a library for single values does it: a call, a check and a draw per bit."""

    def answer(bit: int) -> int:
        if bit not in (0, 1):
            raise ValueError(f"bit must be 0 or 1, not {bit}")
        return 1 - bit if rng.random() < q else bit

    return [[answer(int(value == k)) for k in range(OPTIONS)] for value in values]


def one_call_a_number(values: list[float], scale: float, rng: np.random.Generator) -> list[float]:
    """Laplace noise likewise: a call, a check and a draw by inversion per number."""

    def noisy(value: float) -> float:
        if not math.isfinite(value):
            raise ValueError(f"value must be finite, not {value}")
        centred = rng.random() - 0.5
        return value - scale * math.copysign(math.log1p(-2 * abs(centred)), centred)

    return [noisy(value) for value in values]


def cases(rng: np.random.Generator) -> Cases:
    values = rng.integers(0, OPTIONS, SIZE // OPTIONS)
    one_hot = (values[:, None] == np.arange(OPTIONS)).astype(np.uint8)
    bitwise, numbers, k_ary_values = BitwiseRandomizedResponse(1.0), rng.random(SIZE), rng.integers(0, OPTIONS, SIZE)
    k_ary, several = KaryRandomizedResponse(2.0, OPTIONS), numbers[:FEW].tolist()
    some = values[: FEW // OPTIONS].tolist()
    tree, memoized = TreeAggregation(1.0, 10**9, 1.0), Memoized(bitwise)
    streams, memory = tree.start((SIZE,)), memoized.start((SIZE // OPTIONS,))
    memoized.step(one_hot, rng, memory)
    results: Cases = {
        "NumPy: Generator.random < q": (SIZE, lambda: rng.random(SIZE) < bitwise.q),
        "NumPy: Generator.binomial(1, q)": (SIZE, lambda: rng.binomial(1, bitwise.q, SIZE)),
        "bitwise, fast": (SIZE, lambda: bitwise.perturb(one_hot, rng)),
        "bitwise, exact": (SIZE, lambda: BitwiseRandomizedResponse(1.0, "exact").perturb(one_hot, rng)),
        "bitwise, one call a bit": (FEW, lambda: one_call_a_message(some, bitwise.q, rng)),
        "bitwise, memoized, nothing changed": (SIZE, lambda: memoized.step(one_hot, rng, memory)),
        "k-ary, fast": (SIZE, lambda: k_ary.perturb(k_ary_values, rng)),
        "k-ary, exact": (SIZE, lambda: KaryRandomizedResponse(2.0, OPTIONS, "exact").perturb(k_ary_values, rng)),
        "Laplace, fast": (SIZE, lambda: Laplace(1.0, 1.0).perturb(numbers, rng)),
        "Laplace, one call a number": (FEW, lambda: one_call_a_number(several, 1.0, rng)),
        "Laplace, exact": (SIZE, lambda: Laplace(1.0, 1.0, "exact").perturb(numbers, rng)),
        "Gaussian, fast": (SIZE, lambda: Gaussian.from_rho(0.5, 1.0).perturb(numbers, rng)),
        "Gaussian, exact": (SIZE, lambda: Gaussian.from_rho(0.5, 1.0, "exact").perturb(numbers, rng)),
        "tree, a step of 10^6 streams, horizon 10^9": (SIZE, lambda: tree.step(numbers, rng, streams)),
    }
    for exponent in (4, 5, 6):
        histogram = rng.multinomial(10**exponent, np.full(OPTIONS, 1 / OPTIONS), HISTOGRAMS)
        for name, mechanism in (("bitwise", bitwise), ("k-ary", k_ary)):

            def draw(mechanism: Any = mechanism, histogram: Any = histogram) -> Any:
                return mechanism.perturb_counts(histogram, rng)

            results[f"perturb_counts, {name}, N=10^{exponent}"] = (HISTOGRAMS, draw)
    if find_spec("opendp") is not None:
        few = numbers[:FEW]
        results |= {
            "bitwise, opendp": (SIZE, lambda: BitwiseRandomizedResponse(1.0, "opendp").perturb(one_hot, rng)),
            "k-ary, opendp": (
                FEW,
                lambda: KaryRandomizedResponse(2.0, OPTIONS, "opendp").perturb(k_ary_values[:FEW], rng),
            ),
            "Laplace, opendp": (FEW, lambda: Laplace(1.0, 1.0, "opendp").perturb(few, rng)),
            "Gaussian, opendp": (FEW, lambda: Gaussian.from_rho(0.5, 1.0, "opendp").perturb(few, rng)),
        }
    return results


def main() -> None:
    found = cases(np.random.default_rng(0))
    times: dict[str, list[float]] = {name: [] for name in found}
    for turn in range(REPEATS + 1):
        for name, (draws, call) in found.items():
            started = time.perf_counter()
            call()
            if turn:  # the first turn warms up
                times[name].append(1e9 * (time.perf_counter() - started) / draws)

    def ratio(first: str, second: str) -> float:
        return round(statistics.median(a / b for a, b in zip(times[first], times[second], strict=True)), 2)

    medians = {name: round(statistics.median(each), 2) for name, each in times.items()}
    result: dict[str, Any] = {
        "ns_per_draw": medians,
        "fast_bits_over_numpy": ratio("bitwise, fast", "NumPy: Generator.random < q"),
        "exact_bits_over_numpy": ratio("bitwise, exact", "NumPy: Generator.random < q"),
        "fast_k_ary_over_numpy": ratio("k-ary, fast", "NumPy: Generator.random < q"),
        "fast_k_ary_over_numpy_binomial": ratio("k-ary, fast", "NumPy: Generator.binomial(1, q)"),
        "fast_times_faster_than_one_call": {
            "bitwise": ratio("bitwise, one call a bit", "bitwise, fast"),
            "Laplace": ratio("Laplace, one call a number", "Laplace, fast"),
        },
        "counts_of_a_million_over_ten_thousand": ratio(
            "perturb_counts, bitwise, N=10^6", "perturb_counts, bitwise, N=10^4"
        ),
        "exact_draws_per_second": {
            distribution: round(1e9 / medians[f"{distribution}, exact"])
            for distribution in ("Laplace", "Gaussian", "k-ary", "bitwise")
        },
        "draws": SIZE,
        "options": OPTIONS,
        "repeats": REPEATS,
    }
    packages: tuple[str, ...] = ("taciturn", "numpy")
    if find_spec("opendp") is not None:
        packages += ("opendp",)
        result["exact_times_faster_than_opendp"] = {
            distribution: ratio(f"{distribution}, opendp", f"{distribution}, exact")
            for distribution in ("Laplace", "Gaussian", "k-ary", "bitwise")
        }
    width = max(map(len, medians))
    for name, median in medians.items():
        print(f"{name:{width}} {median:10.1f} ns")
    for name, value in result.items():
        if name != "ns_per_draw":
            print(f"{name}: {value}")
    record("mechanisms", result, packages)


if __name__ == "__main__":
    main()
