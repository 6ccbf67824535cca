"""Write your own stopping rule, compute its exact value, and use it to train a real model."""

import numpy as np

import taciturn
from taciturn.envs import federated_training_v0, round_stopping_v0
from taciturn.envs.core import Array
from taciturn.policies import OptimalStopping
from taciturn.policies.families.round_stopping import StoppingRule


class Patient(StoppingRule):
    """Wait for five updates, then go on while updates are queued, up to twelve."""

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        return (received < 5) | ((queued > 0) & (received < 12))


rule, solution = Patient(), OptimalStopping.solve()
exact = round_stopping_v0.evaluate(rule.table(100))
print(
    f"exact rate {exact.rate:.6f}, {100 * exact.rate / solution.rate:.1f}% of the optimum; a round lasts "
    f"{exact.expected_duration:.2f} s"
)

run = taciturn.simulate(round_stopping_v0.population(20, horizon=300.0), rule, seed=0)
print(f"simulated  {run.metrics['rate'].mean():.6f}")

digits = federated_training_v0.population(10, horizon=120.0)
for policy in (rule, OptimalStopping()):
    run = taciturn.simulate(digits, policy, seed=0, until=np.linspace(30, 120, 4), record=["test_loss"])
    losses = "  ".join(
        f"{t:.0f} s: {loss:.3f}" for t, loss in zip(run.times, run.trace["test_loss"].mean(1), strict=True)
    )
    print(f"{type(policy).__name__:16} held-out loss at  {losses}")
