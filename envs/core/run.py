"""The start of a run: the options of a reset, the configurations of channels, and the accountant."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from taciturn.channels.channel import Channel
from taciturn.channels.config import PLAIN, ChannelConfig, asked_channels, join
from taciturn.envs.core import fields
from taciturn.envs.core.hooks import S
from taciturn.envs.core.info import Info
from taciturn.envs.core.playing import Acts
from taciturn.envs.core.population import Population
from taciturn.envs.core.public import fast_form
from taciturn.envs.core.steps import full_info
from taciturn.seeding import Streams
from taciturn.validation import MOST_NUMBERS, Array, choice, integer, mapping, number, shown


class Run(Population[S]):
    """The runs of a world."""

    def __init__(self, params: Any, num_envs: int = 1) -> None:
        if not hasattr(params, "horizon"):
            raise TypeError(
                f"the parameters of {self.name} must have a horizon, the length of a run in the unit of its clock"
            )
        super().__init__(params, num_envs)
        self._made = params
        self.channels: dict[str, Channel] = {channel.name: channel for channel in self.make_channels()}
        agents = sum(role.num_agents for role in self.roles.values())
        if self.num_envs * agents > MOST_NUMBERS:
            raise ValueError(
                f"num_envs must be at most {MOST_NUMBERS // agents} with {agents} agents, not {shown(num_envs)}"
            )
        for channel in self.channels.values():
            channel.sender = channel.sender or next(iter(self.roles))
            channel.num_senders = channel.num_senders or self.roles[channel.sender].num_agents
        senders = [channel.sender for channel in self.channels.values()]  # some belong to the environment itself
        fields.check_roles(self.state_type, tuple(dict.fromkeys([*self.roles, *senders])))
        self.streams = None
        self.purpose = ""
        self.pictured = self.info_per_agent = True
        self.channel_configs: dict[str, ChannelConfig] = {}
        self.accountant: Any = None
        self.terminated: Array = np.zeros(self.num_envs, np.bool_)
        self.truncated: Array = np.zeros(self.num_envs, np.bool_)
        self._state: Any = None
        self._fixed_spaces = False

    def fix_spaces(self) -> None:
        self._fixed_spaces = True

    def stream(self, name: str) -> np.random.Generator:
        if self.streams is None:
            self.streams = Streams(None, self.purpose)
        return self.streams[name]

    def practice(self, num_envs: int, kind: Any = None, **changes: Any) -> Population[Any]:
        world: Population[Any] = (kind or type(self))(replace(self.practice_params(), **changes), num_envs)
        world.purpose = "training"
        begun = self._state is not None
        configs = {name: one.config for name, one in self.channels.items()} if begun else self.channel_configs
        world.channel_configs = {name: config for name, config in configs.items() if config.mechanism is not None}
        return world

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        begun = self._restart(seed, options, where)
        live = np.ones(self.num_envs, np.bool_) if begun is None else begun.copy()
        return self.observe(), full_info(self, dict, live)

    def _restart(self, seed: int | None, options: Mapping[str, Any] | None, where: Array | None) -> Array | None:
        """`reset`, but returns the replicas that begin, bool[B]; None: all."""
        # Check everything before anything changes.
        if seed is not None:
            integer("seed", seed, at_least=0)
        options = mapping("options", options)
        configs = self._asked_configs(options)
        declared = "public_schedule" in options and choice(
            "options['public_schedule']", options["public_schedule"], (False, True)
        )
        if where is None:
            self._begin_run(options.get("horizon"))
        else:
            where = self._marked(where)
            if options.get("horizon") is not None:
                raise ValueError(
                    f"horizon can change only when all replicas are reset, not in {int(where.sum())} of {self.num_envs}"
                )
            if self._turn != 0 and not where.all():
                raise ValueError(f"where needs the cycle of turns to be complete, but it is the turn of {self.turn}")
            self._require_reset()
        self._settle()
        if seed is not None or self.streams is None:
            self.streams = Streams(seed, self.purpose)
        if where is None:
            self._install(configs)
            self._public_schedule = declared
            for channel in self.channels.values() if declared else ():
                channel.silence_leaks &= not channel.agents_decide
                channel.unbounded = ""
        self._spent = [], {}
        # Before the state is drawn: in some environments agents send messages when a run begins.
        for channel in self.channels.values():
            channel.draw_from(self.streams)
            channel.reset(self.num_envs, where)
            if where is not None:
                channel.live = where.copy()
        if self.accountant is not None and where is not None:
            self.accountant.reset(where)
        if where is None or where.all():
            self._turn, where = 0, None
            self.terminated = np.zeros(self.num_envs, np.bool_)
            self.truncated = np.zeros(self.num_envs, np.bool_)
        else:
            self.terminated, self.truncated = self.terminated & ~where, self.truncated & ~where
        self._begin_state(where)
        return where

    @abstractmethod
    def _begin_state(self, where: Array | None) -> None:
        """Begin runs in the replicas `where` bool[B]; None: all."""

    def _asked_configs(self, options: Mapping[str, Any]) -> dict[str, ChannelConfig]:
        """The configurations that a reset is to install, including the population's own."""
        asked = asked_channels(options)
        for name in asked:
            if name not in self.channels:
                raise ValueError(
                    f"{self.name} has the channels {', '.join(self.channels) or '(none)'}, not {shown(name)}"
                )
        configs = join(self.channel_configs, asked) if asked else dict(self.channel_configs)
        for name in asked:
            self.check_config(name, configs[name])
        return configs

    def _begin_run(self, horizon: Any) -> None:
        """Set the run length to `horizon` (None: the original one) and rebuild the roles; an invalid horizon changes
        nothing."""
        params = self._made
        if horizon is not None:
            horizon = number("horizon", horizon, above=0)
            # A step-counting clock stops at the last whole step.
            horizon = math.floor(horizon + 1e-9) if isinstance(params.horizon, int) else horizon
            if self._fixed_spaces and horizon > params.horizon:
                raise ValueError(
                    f"horizon must be at most {params.horizon:g}, the horizon of these spaces, not {horizon:g}"
                )
            params = replace(params, horizon=horizon)
        if params.horizon == self.params.horizon:
            return
        before, self.params = self.params, params
        if not self._fixed_spaces:
            try:
                self.roles = {role.name: role for role in self.make_roles()}
            except ValueError:
                self.params = before
                raise

    def _install(self, configs: Mapping[str, ChannelConfig]) -> None:
        before, self.accountant = self.accountant, None
        private = any(channel.chosen for channel in self.channels.values())
        if private or any(config.mechanism is not None for config in configs.values()):
            self.accountant = self.make_accountant() if before is None else before.fresh(self.channels)
        for name, channel in self.channels.items():
            channel.install(configs.get(name, PLAIN), self.accountant, self.params)

    def make_accountant(self) -> Any:
        """An empty accountant for the population's senders and channels."""
        from taciturn.privacy.accountant import Accountant

        agents = {channel.sender: channel.num_senders for channel in self.channels.values()}
        senders = {channel.name: channel.sender for channel in self.channels.values()}
        return Accountant(self.num_envs, agents, self.channels.values(), senders=senders)

    def fast_forward(self, policies: Mapping[str, Acts], until: float) -> bool:
        if not self.jumps or self.done.all():
            return False
        if not self.jump_sends_messages and not all(
            channel.sums_have_closed_form for channel in self.channels.values()
        ):
            return False
        if not self.can_jump(until):
            return False
        forms = {role: fast_form(policies[role], self.view(policies[role])) for role in self.roles}
        if not all(isinstance(forms[role], kind) for role, kind in self.jumps.items()):
            return False
        self._settle()
        self.jump(forms, policies, until)
        return True
