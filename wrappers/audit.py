"""The auditor: it certifies a lower bound on the epsilon of a mechanism, a function, or runs of an environment.

For an environment the claim is the accountant's epsilon after a run. The audit compares two adjacent worlds, which
differ in one of two ways. With `pair`, one agent's messages differ: that agent is a canary. The audit replaces its
messages before they reach the mechanism, and the transcript holds the delivered ones. With `change`, one agent's
private data differ, and everything else follows from them: the transcript is everything on the channels, with senders
and times, and the observations, action masks and rewards of the other agents. `taciturn.privacy.certifying` has the
statistics.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from taciturn.privacy.audit_result import AuditMethod, AuditResult
from taciturn.privacy.certifying import Ratio, audit_transcripts, calls
from taciturn.privacy.channels import Unit
from taciturn.privacy.composition import Method
from taciturn.wrappers.canary import CanaryRuns
from taciturn.wrappers.changed_runs import ChangedRuns
from taciturn.wrappers.channels import population_of

RUNS = 10_000
MESSAGES = 200_000


def audit(
    mechanism: Any,
    pair: tuple[Any, Any] | Mapping[str, tuple[Any, Any]] | None = None,
    trials: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    method: AuditMethod | None = None,
    *,
    claimed: float | None = None,
    delta: float | None = None,
    sensitivity: float | None = None,
    log_likelihood_ratio: Ratio | None = None,
    held_out: float = 0.5,
    batch: int | None = None,
    name: str | None = None,
    progress: Callable[[int], None] | None = None,
    policy: Any = None,
    change: tuple[Any, Any] | None = None,
    steps: int | None = None,
    agent: int = 0,
    unit: Unit = "user",
    references: bool = False,
    bits: bool | None = None,
    composition: Method = "rdp",
    beside: Sequence[Any] = (),
) -> AuditResult:
    """Certify a lower bound on the epsilon of a mechanism, of runs of an environment, or of any function that makes
    transcripts.

    Args:
        mechanism: an object with a batch-first `perturb(x, rng)`; or an environment of this suite, in any interface,
            with the mechanisms and faults installed by `Privatize` and `Faulty`; or a function `transcript(x, rng,
            trials)` that makes independent transcripts [trials, ...] of the world x.
        pair: the two adjacent worlds (x0, x1). For a mechanism, two messages; for an environment, `{channel: (x0,
            x1)}`, two messages of an agent on each channel to be audited; for a function, any two values that it
            accepts.
        trials: number of transcripts, each from a world chosen by a fair coin; in `one-run`, the number of agents.
            Default: 200,000, so an event of probability 1/1000 can refute a claim of 1; 10,000 for runs of an
            environment.
        confidence: probability that the certificate holds.
        seed: seed of the coins, and of the Generator that the mechanism or function receives.
        method: `white` scores a transcript by its log-likelihood ratio, `black` by the best of several attackers that
            learn from transcripts (`taciturn.privacy.attackers`), and `both` does both on the same transcripts, with
            half of the error probability each: the better certificate counts. `one-run` makes a single transcript;
            every agent in it is a canary with an independent coin. A function then receives x as [trials, ...] and
            returns each agent's part of the transcript, [trials, ...]. One run with Gaussian noise certifies by the
            Gaussian trade-off curve, at any delta (`taciturn.privacy.one_run`). Default: `both` if there is a
            log-likelihood ratio (`white` for transcripts of more than 64 numbers), else `black`.
        claimed: the epsilon to compare with. Default: `mechanism.epsilon`, or inf (no claim) if it has none at this
            delta. For an environment: the accountant's largest epsilon for the agent in any run, against the observer
            of the audited channels (over all channels, if they have several observers).
        delta: certify (epsilon, delta)-DP; pure DP if 0. Default: `mechanism.delta`, or 0 if it has none.
        sensitivity: passed to a mechanism that takes it with each message.
        log_likelihood_ratio: a function of (y [trials, ...], x0, x1) that returns [trials]; `one-run` uses it too.
            Default: the mechanism's own, if it has one.
        held_out: share of the trials that choose the threshold.
        batch: number of transcripts in one batch. Default: at most 10,000 for a function; otherwise small enough for
            many calls, between which a mechanism may change: 1/256 of the trials, but from 100 to 100,000 for a
            mechanism and from 1,000 to 10,000 for an environment.
        name: the name in tables.
        progress: called with the number of trials scored so far.
        policy: for an environment, the policy that acts, or `{role: policy}`.
        change: for an environment, in place of `pair`: the data (x0, x1) that replace each private observation of the
            agent in the two worlds (`Population.private`), such as (0, 1) for rewards that are all 0 or all 1.
        steps: turns of a run of an environment. Default: until it ends.
        agent: the canary in an environment, by its index among the senders; in `one-run` all senders are canaries.
        unit: how the two worlds of an environment differ. `user`: the canary sends x0 in all its messages, or x1 in
            all, and the claim is the epsilon of the whole run. `event`: it sends x0 or x1 in its first message and x0
            afterwards, and the claim is the epsilon of one message on each channel.
        references: whether a `black` attacker may compare with known messages, which reveals reused noise. Each
            transcript then also holds other results of x0: for a mechanism or function, one from the next call, and for
            a mechanism also one from another row of the same call; for an environment, the messages of another agent,
            and of the same agent in a run after a reset. None of these depends on the secret, so the claim is the same.
        bits: whether attackers read the lowest bits of floating-point numbers. Default: yes, unless the mechanism, or
            one on an audited channel, declares its sampler an idealisation (`Mechanism.idealised`, true for `fast`
            samplers of noise).
        composition: composition method of the accountant for an environment's claim (`Accountant.epsilon`); `pld` is
            the tightest.
        beside: for an audit with `change`: the same environment under other mechanisms, each played from the same seed
            on the same private data. The attacker reads all of these runs, and the claim is the sum of their epsilons.

    Returns:
        An `AuditResult`.

    Raises:
        ValueError: a parameter is out of bounds, `white` has no log-likelihood ratio, or transcripts have a wrong
            shape.

    With `pair` an environment is audited message by message; only `change` shows leaks by silence and timing, by other
    agents' observations, masks and rewards, and by noise shared between runs from one seed, and it certifies at user
    level. Leaks through visible actions need a function. The caller must know that the two messages are adjacent:
    messages further apart than the environment's stated sensitivity refute nothing. `white` relies on the mechanism's
    own distribution and cannot see noise reused for two messages; `black` with `unit="event"` and `references` can.
    """
    runs: CanaryRuns | ChangedRuns | None = None
    if len(beside) and change is None:
        raise ValueError(f"beside must be empty without change, not {beside!r}")
    if trials is None:
        trials = MESSAGES if population_of(mechanism) is None else RUNS
    if change is not None:
        if pair is not None or unit != "user" or method not in (None, "black") or references:
            raise ValueError(
                f"change must be None with a pair or references, at event level or with method {method!r}, not "
                f"{change!r}"
            )
        runs = ChangedRuns.of(
            mechanism, policy, change, steps, agent, 0.0 if delta is None else delta, composition, beside
        )
        method, batch, name = "black", RUNS // 10 if batch is None else batch, name or f"{runs.env.name}: whole runs"
        mechanism, pair = runs, (0, 1)
    elif population_of(mechanism) is not None:
        runs = CanaryRuns(
            mechanism, pair, policy, steps, agent, unit, 0.0 if delta is None else delta, references, composition
        )
        if references and method not in (None, "black"):
            raise ValueError(f"method must be 'black' with references, not {method!r}")
        if method == "one-run" and trials != runs.senders:
            raise ValueError(f"trials must be the number of senders, {runs.senders}, in one run, not {trials!r}")
        if runs.memoryless and not references:
            log_likelihood_ratio = log_likelihood_ratio or runs.log_likelihood_ratio
        batch = max(calls(trials, RUNS), RUNS // 10) if batch is None else batch
        mechanism, pair, name, references = runs, (0, 1), name or f"{runs.env.name}: {', '.join(runs.pair)}", False
    elif pair is None:
        raise ValueError("pair must be two adjacent worlds (x0, x1), or change be given for an environment, not None")
    result = audit_transcripts(
        mechanism,
        pair,
        trials,
        confidence,
        seed,
        method,
        claimed=claimed,
        delta=delta,
        sensitivity=sensitivity,
        log_likelihood_ratio=log_likelihood_ratio,
        held_out=held_out,
        batch=batch,
        name=name,
        progress=progress,
        references=references,
        bits=bits,
    )
    if runs is not None:
        result = replace(result, spent=runs.spent, moved=getattr(runs, "moved", math.nan))
    return result if runs is None or claimed is not None else result.against(runs.claimed)
