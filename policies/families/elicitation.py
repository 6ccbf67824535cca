"""Base classes of the policies for elicitation: platforms with the same announcement in every campaign, and
individuals."""

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, number
from taciturn.envs.elicitation.costs import Cost
from taciturn.envs.elicitation.game import Announcement
from taciturn.envs.elicitation.payments import MIN_TARGET, RULES
from taciturn.envs.elicitation.reporting import Reporting
from taciturn.envs.elicitation.world import Elicitation
from taciturn.policies.base import Policy
from taciturn.policies.families.best_response import best_epsilon
from taciturn.validation import Floats, Ints


class Platform(Policy):
    """Base of the platform's policies that make the same `announcement` in every campaign.

    Args:
        target: e; None: the environment's desired budget.
    """

    def __init__(self, target: float | None = None) -> None:
        self.target = None if target is None else number("target", target, at_least=MIN_TARGET, at_most=1e30)
        self._reporting: Reporting | None = None

    def begin(self, view: PublicView) -> None:
        if not issubclass(view.world, Elicitation) or self.role != "platform":
            raise ValueError(
                f"{type(self).__name__} plays the platform of elicitation_v0, not {self.role!r} of {view.world.name!r}"
            )
        self._view, self._theta, self._reporting = view, np.zeros((0, 0)), view.reporting
        self._layout, self._desired = view.roles[self.role].layout, np.zeros(0)
        # A platform that does not know theta assumes this.
        self._unknown = np.full((view.num_envs, view.params.num_values), 1 / view.params.num_values)
        self.check(view)

    def check(self, view: PublicView) -> None:
        """Warn or raise if the policy is unsuitable for this environment."""

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        """The announcement for this theta [M], cost and desired budget; theta is uniform unless the policy declares
        `needs_truth`."""
        raise NotImplementedError

    def aim(self, target: float | None) -> float:
        """e: the policy's own target, or else the environment's `target`."""
        aim = self.target if self.target is not None else target
        if aim is None:
            raise ValueError(f"target must be given, to {type(self).__name__} or as an argument, not None")
        return aim

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        theta = self._view.truth.state.theta if self.needs_truth else self._unknown
        low, high = self._view.params.targets
        # In full precision, unless the target differs between runs and is read from observations.
        desired = (
            np.full(len(obs), low) if low == high else self._layout.unpack(obs)["desired"][:, 0].astype(np.float64)
        )
        if self._theta is not theta or not np.array_equal(self._desired, desired):
            self._theta, self._desired, self._action = theta, desired, self._announce(self._view, theta, desired)
        return self._action.copy()

    def _announce(self, view: PublicView, theta: Floats, desired: Floats) -> Array:
        rows, of = np.unique(np.column_stack([theta, desired]), axis=0, return_inverse=True)
        announced = [self.announcement(row[:-1], view.cost, float(row[-1])) for row in rows]
        names = ("target", "scale", "value")
        fields = {name: np.array([getattr(one, name) for one in announced])[of] for name in names}
        if (largest := fields["scale"].max()) > view.params.max_scale:
            raise ValueError(f"max_scale must be at least {largest:g} for {self!r}, not {view.params.max_scale!r}")
        action: Array = view.announce(announced[0].rule, **fields)
        return action


class Individuals(Policy):
    """Base of the individuals' policies: `answer` computes budgets from observations."""

    def begin(self, view: PublicView) -> None:
        if not issubclass(view.world, Elicitation) or self.role != "individual":
            raise ValueError(
                f"{type(self).__name__} plays the individuals of elicitation_v0, not {self.role!r} of "
                f"{view.world.name!r}"
            )
        self._view, self._observed = view, np.zeros((0, 0, 0))
        self._layout = view.roles[self.role].layout

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """Equal observations get equal answers, so compute each once."""
        if not np.array_equal(obs, self._observed):
            self._answer = self.answer(self._layout.unpack(obs))[..., None].astype(np.float32)
            self._observed = obs.copy()
        return self._answer.copy()

    def answer(self, seen: dict[str, Array]) -> Array:
        """Budgets [B, N] for the fields of an observation, [B, N, ...] each; negative: stay away."""
        raise NotImplementedError

    def rules(self, seen: dict[str, Array]) -> Ints:
        """Positions in `RULES` of the announced rules, int64[B, N]."""
        announced = seen.get("rule", np.zeros(seen["target"].shape)).astype(np.int64)
        return np.array([RULES.index(rule) for rule in self._view.params.rules])[announced]

    def beliefs(self, seen: dict[str, Array]) -> Floats:
        """The beliefs about theta in full precision, [B, N, M]."""
        belief = seen["belief"].astype(np.float64)
        return belief / belief.sum(-1, keepdims=True)

    def cost_factors(self, seen: dict[str, Array]) -> Floats:
        """The individuals' factors u_i of the cost, [B, N]."""
        return seen["cost"].astype(np.float64) / self._view.cost.c

    def best(self, seen: dict[str, Array], belief: Floats, prizes: Floats) -> tuple[Floats, Floats]:
        """The budgets [B, N] with the largest payoffs for prizes [B, n, x], and the answer: these budgets, or -1 where
        the payoff is negative."""
        view, factor, bound = self._view, self.cost_factors(seen), self._view.params.max_epsilon
        budget, payoff = best_epsilon(prizes, belief, view.cost, factor, at_most=bound, reporting=view.reporting)
        return budget, np.where(payoff >= 0, budget, -1.0)


class ExactIndividuals(Individuals):
    """Base of the policies that compute expected payments exactly from the distribution of the others' reports, for
    k-ary response."""

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        choice("reporting", self._view.params.reporting, ("k_ary",))

    def expected(self, seen: dict[str, Array], distributions: Floats) -> Floats:
        """The expected payment for each report, [B, n, x], if all others report with the distribution [B, n, x]; n is
        N, or 1 for all individuals alike."""
        p, rows = self._view.params, distributions.shape[1]
        others, nothing = np.array([p.num_individuals - 1]), np.zeros(seen["target"].shape)
        fields = np.stack([seen["target"], seen["scale"], self.rules(seen), seen.get("value", nothing)], -1)
        reference = seen.get("reference", np.zeros(seen["belief"].shape))
        cases = np.concatenate([fields[:, :rows], reference[:, :rows], distributions], -1).reshape(
            -1, 4 + 2 * distributions.shape[-1]
        )
        # Solve equal cases once.
        cases, inverse = np.unique(cases, axis=0, return_inverse=True)
        prizes = []
        for (target, scale, rule, value), rest in zip(cases[:, :4].tolist(), cases[:, 4:], strict=True):
            share, distribution = rest.reshape(2, -1)
            announced = Announcement(RULES[int(rule)], target, scale, int(value), share, p.payment_cap)
            prizes.append(announced.prizes(distribution[None], others))
        return np.stack(prizes)[inverse.ravel()].reshape(distributions.shape)
