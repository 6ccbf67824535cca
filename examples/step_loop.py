"""A plain Gymnasium loop: play one minute of round stopping by a rule of thumb."""

import gymnasium

import taciturn  # noqa: F401 - registers the environments

STOP, WAIT = 0, 1

env = gymnasium.make("taciturn/RoundStopping-v0", horizon=60.0, render_mode="ansi")
observation, info = env.reset(seed=0)
ended = False
while not ended:
    received, queued = observation[0], observation[1]
    enough = received >= (9 if queued else 4)
    observation, reward, terminated, truncated, info = env.step(STOP if enough else WAIT)
    ended = terminated or truncated
    if info["duration"] > 0:  # a round has closed
        print(f"{info['updates']} updates in {info['duration']:.2f} s earned {reward:.4f}")
print(env.render())
print(f"rate: {info['rate_so_far']:.6f} per second")
env.close()
