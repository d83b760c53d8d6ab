"""The paper's algorithm in PyTorch, written plainly: `alg:moretacomax` with the networks of `tab:commonhyper`.

A peer for `peers.py`. It does what most PyTorch code does: the environments are stepped in batches, every frame passes
through the convolutions, and each gradient step uses the whole batch. It has none of gemax's exact savings, such as
tables of distinct images. Settings are those of a gemax configuration.
"""

from collections import deque
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gemax.training.config import Config

CONVOLUTIONS = ((32, 8, 4), (32, 4, 2), (64, 3, 1))
MIN_G = 1e-8


class Torso(nn.Module):
    """Three convolutions and a linear layer for images; a linear layer for cells, as in gemax."""

    def __init__(self, shape: tuple[int, ...], size: int, *, has_convolutions: bool) -> None:
        super().__init__()
        layers, channels = [], shape[2]
        for outputs, kernel, stride in CONVOLUTIONS if has_convolutions else ():
            layers += [nn.Conv2d(channels, outputs, kernel, stride), nn.ReLU()]
            channels = outputs
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            flat = self.convolutions(torch.zeros(1, shape[2], *shape[:2])).shape[1]
        self.linear = nn.Linear(flat, size)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns the features, [batch, size]."""
        return functional.relu(self.linear(self.convolutions(images)))


def head(num_inputs: int, size: int, num_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(num_inputs, size), nn.ReLU(), nn.Linear(size, num_outputs))


class Agent(nn.Module):
    """Policy and value over an LSTM of features, previous action, previous reward and time."""

    def __init__(self, torso: Torso, config: Config, num_actions: int, horizon: int) -> None:
        super().__init__()
        agent = config.agent
        self.num_actions, self.horizon, self.num_buckets = num_actions, horizon, agent.time_buckets
        self.torso = torso
        self.lstm = nn.LSTMCell(agent.torso_size + num_actions + 1 + agent.time_buckets, agent.lstm_size)
        self.policy = head(agent.lstm_size, agent.head_size, num_actions)
        self.value = head(agent.lstm_size, agent.head_size, 1)

    def inputs(
        self, images: torch.Tensor, action: torch.Tensor, reward: torch.Tensor, time: torch.Tensor
    ) -> torch.Tensor:
        """Returns the inputs of the LSTM. The action after a reset is `num_actions`, encoded as zeros."""
        one_hot = functional.one_hot(action, self.num_actions + 1)[..., :-1].float()
        centres = torch.arange(self.num_buckets) + 0.5
        buckets = torch.exp(-(self.num_buckets * time[..., None] / self.horizon - centres).abs())
        return torch.cat([self.torso(images), one_hot, reward[..., None], buckets], dim=-1)


class Step(NamedTuple):
    """One step of all environments, as tensors."""

    images: torch.Tensor
    previous_action: torch.Tensor
    previous_reward: torch.Tensor
    time: torch.Tensor
    is_first: torch.Tensor
    hidden: torch.Tensor
    cell: torch.Tensor
    action: torch.Tensor
    log_prob: torch.Tensor
    reward: torch.Tensor
    is_end: torch.Tensor
    next_images: torch.Tensor


class TorchGem:
    """Trains policy, value, f and g together."""

    def __init__(self, envs: gymnasium.vector.VectorEnv, config: Config, horizon: int) -> None:
        agent, intrinsic = config.agent, config.intrinsic
        shape, space = envs.single_observation_space.shape, envs.single_action_space
        assert shape is not None
        assert isinstance(space, gymnasium.spaces.Discrete)
        self._envs, self._config = envs, config

        def torso() -> Torso:
            return Torso(shape, agent.torso_size, has_convolutions=config.env.observation == "pixels")

        self._agent = Agent(torso(), config, int(space.n), horizon)
        self._torso = torso()
        self._f = head(agent.torso_size, agent.head_size, intrinsic.embedding_size)
        self._g = head(agent.torso_size, agent.head_size, 1)
        betas = agent.adam_beta1, agent.adam_beta2
        reward_parameters = [
            *self._torso.parameters(),
            *self._f.parameters(),
            *self._g.parameters(),
        ]
        self._agent_optimiser = torch.optim.Adam(
            self._agent.parameters(), agent.learning_rate, betas, foreach=True
        )
        self._reward_optimiser = torch.optim.Adam(
            reward_parameters, intrinsic.reward_learning_rate, betas, foreach=True
        )
        self._window: deque[Step] = deque(maxlen=agent.unroll_length)
        self._rewards: deque[torch.Tensor] = deque(maxlen=agent.unroll_length)
        self._mean, self._std, self._weight = 0.0, 0.0, 0.0
        self.returns: deque[float] = deque(maxlen=1000)
        """Extrinsic returns of the last episodes."""
        num_envs = envs.num_envs
        self._images = to_images(envs.reset(seed=config.run.seed)[0])
        self._action = torch.full((num_envs,), int(space.n))
        self._reward = torch.zeros(num_envs)
        self._time = torch.zeros(num_envs, dtype=torch.long)
        self._is_first = torch.ones(num_envs, dtype=torch.bool)
        self._state = torch.zeros(2, num_envs, agent.lstm_size)
        self._episode_return = torch.zeros(num_envs)

    def update(self) -> None:
        """Collects new steps, trains f and g on them, and trains policy and value on the window."""
        steps = [self._step() for _ in range(self._config.agent.unroll_period)]
        intrinsic = self._learn_reward(steps)
        self._window.extend(steps)
        self._rewards.extend(step.reward + extra for step, extra in zip(steps, intrinsic, strict=True))
        self._learn_policy()

    @torch.no_grad()
    def _step(self) -> Step:
        hidden, cell = self._state
        inputs = self._agent.inputs(self._images, self._action, self._reward, self._time)
        next_hidden, next_cell = self._agent.lstm(inputs, (hidden, cell))
        policy = torch.distributions.Categorical(logits=self._agent.policy(next_hidden))
        action = policy.sample()
        observations, rewards, terminated, truncated, infos = self._envs.step(action.numpy())
        ended = terminated | truncated
        last = observations
        if ended.any():
            last = observations.copy()
            last[ended] = np.stack(infos["final_obs"][ended].tolist())
        reward, is_end = torch.as_tensor(rewards).float(), torch.as_tensor(ended)
        step = Step(
            self._images, self._action, self._reward, self._time, self._is_first, hidden, cell,
            action, policy.log_prob(action), reward, is_end, to_images(last),
        )  # fmt: skip
        self._episode_return += reward
        self.returns.extend(self._episode_return[is_end].tolist())
        self._episode_return[is_end] = 0.0
        self._images, self._is_first = to_images(observations), is_end
        self._action = torch.where(is_end, self._agent.num_actions, action)
        self._reward = torch.where(is_end, 0.0, reward)
        self._time = torch.where(is_end, 0, self._time + 1)
        self._state = torch.stack([next_hidden, next_cell]) * ~is_end[:, None]
        return step

    def _learn_reward(self, steps: list[Step]) -> torch.Tensor:
        """Trains f and g, `alg:taco`. Returns the intrinsic rewards, [time, envs]."""
        config = self._config.intrinsic
        after = torch.stack([step.next_images for step in steps])
        before = torch.stack([step.images for step in steps])
        features = self._torso(after.flatten(0, 1))
        embedding = self._f(features).unflatten(0, after.shape[:2])
        g = functional.softplus(self._g(features)[:, 0]).unflatten(0, after.shape[:2]) + MIN_G
        embedding_before = self._f(self._torso(before.flatten(0, 1))).unflatten(0, after.shape[:2])
        half = after.shape[1] // 2
        similarity, negative_g = (
            torch.cat(parts, dim=1)
            for parts in zip(
                self._compare(embedding[:, :half], embedding[:, half:], g[:, half:]),
                self._compare(embedding[:, half:], embedding[:, :half], g[:, :half]),
                strict=True,
            )
        )
        objective = torch.log(g).mean() - (similarity * g).mean() + 1.0
        distance = (embedding - embedding_before).norm(dim=-1)
        q, offset = config.huber_exponent, config.huber_offset
        adjacency = ((offset**q + distance**q) ** (1 / q)).mean()
        penalty = embedding.pow(2).sum(dim=-1).mean()
        loss = config.adjacency_scale * adjacency + config.embedding_penalty * penalty - objective
        self._reward_optimiser.zero_grad()
        loss.backward()
        self._reward_optimiser.step()
        with torch.no_grad():
            raw = 1.0 + torch.log(g) - similarity * g - negative_g
        return self._normalised(raw)

    def _compare(
        self, points: torch.Tensor, others: torch.Tensor, g: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns `E[k(x, x')]` and `E[k(x, x') g(x')]` over negatives sampled from the other environments."""
        num_negatives = self._config.intrinsic.num_negatives
        index = torch.randint(others.shape[0] * others.shape[1], (*points.shape[:2], num_negatives))
        negatives = others.flatten(0, 1)[index]
        squared = (points[:, :, None] - negatives).pow(2).sum(dim=-1)
        # The gradient of a square root is infinite at zero.
        distance = torch.where(squared > 0, torch.where(squared > 0, squared, 1.0).sqrt(), 0.0)
        similarity = torch.exp(-self._config.intrinsic.similarity_scale * distance)
        return similarity.mean(dim=-1), (similarity * g.flatten()[index]).mean(dim=-1).detach()

    def _normalised(self, raw: torch.Tensor) -> torch.Tensor:
        self._weight = 0.99 * self._weight + 1.0
        self._mean += (float(raw.mean()) - self._mean) / self._weight
        self._std += (float(raw.std()) - self._std) / self._weight
        intrinsic = self._config.intrinsic
        return intrinsic.intrinsic_scale * (raw - self._mean) / (self._std + 1e-8) + intrinsic.intrinsic_shift

    def _learn_policy(self) -> None:
        """Trains policy and value on the window with V-trace."""
        config, steps = self._config.agent, list(self._window)
        stacked = Step(*(torch.stack(field) for field in zip(*steps, strict=True)))
        images = torch.cat([stacked.images, self._images[None]])
        inputs = self._agent.inputs(
            images.flatten(0, 1),
            torch.cat([stacked.previous_action, self._action[None]]).flatten(),
            torch.cat([stacked.previous_reward, self._reward[None]]).flatten(),
            torch.cat([stacked.time, self._time[None]]).flatten(),
        ).unflatten(0, images.shape[:2])
        is_first = torch.cat([stacked.is_first, self._is_first[None]])
        state, hidden = (stacked.hidden[0], stacked.cell[0]), []
        for time in range(len(images)):
            state = tuple(part * ~is_first[time][:, None] for part in state)
            state = self._agent.lstm(inputs[time], state)
            hidden.append(state[0])
        hidden = torch.stack(hidden)
        values = self._agent.value(hidden)[..., 0]
        policy = torch.distributions.Categorical(logits=self._agent.policy(hidden[:-1]))
        log_prob = policy.log_prob(stacked.action)
        with torch.no_grad():
            target, advantage = vtrace(
                torch.stack(list(self._rewards)),
                config.discount * ~stacked.is_end,
                values,
                stacked.is_end,
                torch.exp(log_prob - stacked.log_prob).clamp(max=1.0),
                config.vtrace_lambda,
                td=config.advantage == "td",
            )
        policy_loss = -(log_prob * advantage).mean()
        value_loss = (values[:-1] - target).pow(2).mean()
        loss = policy_loss + value_loss - config.entropy_cost * policy.entropy().mean()
        self._agent_optimiser.zero_grad()
        loss.backward()
        self._agent_optimiser.step()


def vtrace(
    reward: torch.Tensor,
    discount: torch.Tensor,
    values: torch.Tensor,
    is_end: torch.Tensor,
    ratio: torch.Tensor,
    vtrace_lambda: float,
    *,
    td: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns targets and advantages (Espeholt et al. 2018). `values` has one more step than the others."""
    error = ratio * (reward + discount * values[1:] - values[:-1])
    decay = torch.where(is_end, 0.0, discount * vtrace_lambda * ratio)
    correction, corrections = torch.zeros_like(error[0]), []
    for step in reversed(range(len(error))):
        correction = error[step] + decay[step] * correction
        corrections.append(correction)
    target = values[:-1] + torch.stack(corrections[::-1])
    if td:
        return target, error
    target_tp1 = torch.cat([target[1:], values[-1:]])
    following = torch.where(is_end, values[1:], vtrace_lambda * target_tp1 + (1 - vtrace_lambda) * values[1:])
    return target, ratio * (reward + discount * following - values[:-1])


def to_images(observations: Any) -> torch.Tensor:
    """Returns images as [envs, channels, height, width] in [-1, 1]."""
    return torch.as_tensor(observations).permute(0, 3, 1, 2).float() / 127.5 - 1.0
