"""A training loop of one's own, with the wrapper around its environments: PPO in a hundred lines.

python examples/loop.py                      # the reward is found, and then sought
python examples/loop.py --method none        # the same loop, without an intrinsic reward

The line that makes the difference is the one with `IntrinsicReward`. Rewards then have the intrinsic one in them, and
the loop learns from them as it always did.
"""

import argparse
from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from gemax.integrations.gymnasium import IntrinsicReward

# Two small rooms, a door between them in the far corner, and the reward behind the wall.
ROOMS = "S....\n.....\n.....\n####.\n.....\n.....\nG....\n"
HORIZON, NUM_ENVS, EPOCHS, BATCHES = 20, 32, 8, 4
DISCOUNT, TRACE_DECAY, CLIP = 0.99, 0.95, 0.2


class Agent(nn.Module):
    """Policy and value, each with a hidden layer."""

    def __init__(self, inputs: int, num_actions: int):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, num_actions))
        self.value = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """The distribution of the next action, and the value."""
        flat = observations.flatten(-3).float() / 255.0
        return Categorical(logits=self.policy(flat)), self.value(flat)[..., 0]


def advantages_of(
    rewards: torch.Tensor, values: torch.Tensor, last: torch.Tensor, ends: torch.Tensor
) -> torch.Tensor:
    """Generalised advantages. Episodes are cut where they end; both ends count as the last of what can be earned."""
    advantages, following = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        value_after = last if t == len(rewards) - 1 else values[t + 1]
        surprise = rewards[t] + DISCOUNT * value_after * ~ends[t] - values[t]
        advantages[t] = following = surprise + DISCOUNT * TRACE_DECAY * following * ~ends[t]
    return advantages


def main(arguments: Sequence[str] | None = None) -> float:
    """Learns, and gives the share of the last 500 episodes that reached the reward."""
    parser = argparse.ArgumentParser(
        description="A loop of one's own, with the wrapper around its environments."
    )
    parser.add_argument("--method", default="gem", help="gem, rnd, ngu, ngu-rnd, or none")
    parser.add_argument("--rollouts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)

    envs = gymnasium.make_vec(
        "gemax/Map-v0", NUM_ENVS, map=ROOMS, horizon=HORIZON, observation="squares", autoreset_mode="SameStep"
    )
    envs = IntrinsicReward(envs, options.method, rollout_length=HORIZON, horizon=HORIZON, seed=options.seed)

    agent = Agent(int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n))
    optimiser = torch.optim.Adam(agent.parameters(), lr=1e-3)
    observations, _ = envs.reset(seed=options.seed)
    reached: list[bool] = []
    for number in range(1, options.rollouts + 1):
        steps = []
        for _ in range(HORIZON):
            seen = torch.as_tensor(observations)
            with torch.no_grad():
                policy, value = agent(seen)
            action = policy.sample()
            observations, rewards, terminated, truncated, infos = envs.step(action.numpy())
            ends = terminated | truncated
            steps.append(
                (
                    seen,
                    action,
                    policy.log_prob(action),
                    value,
                    torch.as_tensor(rewards).float(),
                    torch.as_tensor(ends),
                )
            )
            # The environment's own reward is what is left without the intrinsic one.
            reached += (rewards - infos["intrinsic_reward"] > 0.5)[ends].tolist()
        learn(agent, optimiser, steps, torch.as_tensor(observations))
        if number % 25 == 0:
            print(
                f"rollout {number}: {np.mean(reached[-500:]):.2f} of the last episodes reached the reward",
                flush=True,
            )
    return float(np.mean(reached[-500:]))


def learn(agent: Agent, optimiser: torch.optim.Optimizer, steps: list, after: torch.Tensor) -> None:
    """PPO: several passes over the rollout, in a few batches each."""
    seen, action, log_probability, value, reward, ends = map(torch.stack, zip(*steps, strict=True))
    with torch.no_grad():
        advantage = advantages_of(reward, value, agent(after)[1], ends)
    target = (advantage + value).flatten()
    seen, action, log_probability, advantage = (
        seen.flatten(0, 1), action.flatten(), log_probability.flatten(), advantage.flatten()
    )  # fmt: skip
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(action)).chunk(BATCHES):
            policy, value = agent(seen[batch])
            ratio = (policy.log_prob(action[batch]) - log_probability[batch]).exp()
            gain = advantage[batch]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            policy_loss = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            loss = policy_loss + 0.5 * ((value - target[batch]) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()


if __name__ == "__main__":
    main()
