"""PPO in a hundred lines, as an example of a custom training loop with an intrinsic reward.

python examples/loop.py                      # finds the reward
python examples/loop.py --method none        # the same loop without an intrinsic reward

Only the line with `IntrinsicRewardWrapper` is new: it adds the intrinsic reward to the rewards of the environment.
"""

import argparse
from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from gemax.integrations.gymnasium import IntrinsicRewardWrapper

# Two small rooms with a door in the far corner. The reward is behind the wall.
ROOMS = "S....\n.....\n.....\n####.\n.....\n.....\nG....\n"
HORIZON, NUM_ENVS, EPOCHS, BATCHES = 20, 32, 8, 4
DISCOUNT, GAE_LAMBDA, CLIP = 0.99, 0.95, 0.2


class Agent(nn.Module):
    """Policy and value network, each with one hidden layer."""

    def __init__(self, inputs: int, num_actions: int):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, num_actions))
        self.value = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """Returns the distribution of the next action, and the value."""
        flat = observations.flatten(-3).float() / 255.0
        return Categorical(logits=self.policy(flat)), self.value(flat)[..., 0]


def compute_advantages(
    rewards: torch.Tensor, values: torch.Tensor, last_value: torch.Tensor, dones: torch.Tensor
) -> torch.Tensor:
    """Returns generalised advantages. Truncated episodes are treated as terminated."""
    advantages, next_advantage = torch.zeros_like(rewards), torch.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        next_value = last_value if t == len(rewards) - 1 else values[t + 1]
        td_error = rewards[t] + DISCOUNT * next_value * ~dones[t] - values[t]
        advantages[t] = next_advantage = td_error + DISCOUNT * GAE_LAMBDA * next_advantage * ~dones[t]
    return advantages


def main(arguments: Sequence[str] | None = None) -> float:
    """Trains, and returns the success rate of the last 500 episodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="gem", help="gem, rnd, ngu, ngu-rnd, e3b, re3, or none")
    parser.add_argument("--rollouts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)

    envs = gymnasium.make_vec(
        "gemax/Map-v0", NUM_ENVS, map=ROOMS, horizon=HORIZON, observation="cells", autoreset_mode="SameStep"
    )
    envs = IntrinsicRewardWrapper(
        envs, options.method, rollout_length=HORIZON, horizon=HORIZON, seed=options.seed
    )

    agent = Agent(int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n))
    optimiser = torch.optim.Adam(agent.parameters(), lr=1e-3)
    observations, _ = envs.reset(seed=options.seed)
    successes: list[bool] = []
    for rollout in range(1, options.rollouts + 1):
        steps = []
        for _ in range(HORIZON):
            observation = torch.as_tensor(observations)
            with torch.no_grad():
                policy, value = agent(observation)
            action = policy.sample()
            observations, rewards, terminated, truncated, infos = envs.step(action.numpy())
            dones = terminated | truncated
            results = torch.as_tensor(rewards).float(), torch.as_tensor(dones)
            steps.append((observation, action, policy.log_prob(action), value, *results))
            # The reward of the environment alone is above 0.5 if the episode was successful.
            successes += (rewards - infos["intrinsic_reward"] > 0.5)[dones].tolist()
        learn(agent, optimiser, steps, torch.as_tensor(observations))
        if rollout % 25 == 0:
            print(f"rollout {rollout}: success rate {np.mean(successes[-500:]):.2f}", flush=True)
    return float(np.mean(successes[-500:]))


def learn(
    agent: Agent, optimiser: torch.optim.Optimizer, steps: list, next_observation: torch.Tensor
) -> None:
    """Updates the agent with PPO: several epochs over the rollout, in a few batches each."""
    observation, action, log_prob, value, reward, dones = map(torch.stack, zip(*steps, strict=True))
    with torch.no_grad():
        advantage = compute_advantages(reward, value, agent(next_observation)[1], dones)
    target = (advantage + value).flatten()
    observation, action, log_prob, advantage = (
        observation.flatten(0, 1), action.flatten(), log_prob.flatten(), advantage.flatten()
    )  # fmt: skip
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(action)).chunk(BATCHES):
            policy, value = agent(observation[batch])
            ratio = (policy.log_prob(action[batch]) - log_prob[batch]).exp()
            scaled = (advantage[batch] - advantage[batch].mean()) / (advantage[batch].std() + 1e-8)
            policy_loss = -torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            loss = policy_loss + 0.5 * ((value - target[batch]) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()


if __name__ == "__main__":
    main()
