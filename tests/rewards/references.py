"""The baselines in NumPy: plain loops in float64, written from their papers and not from gemax."""

import numpy as np


class RunningMoments:
    """Mean and standard deviation over all batches so far, each weighted with decay^age."""

    def __init__(self, decay):
        self.decay, self.batches = decay, []

    def add(self, batch):
        self.batches.append(np.asarray(batch, np.float64))

    def average(self, statistic):
        weights = [self.decay ** (len(self.batches) - 1 - b) for b in range(len(self.batches))]
        return sum(w * statistic(b) for w, b in zip(weights, self.batches, strict=True)) / sum(weights)

    @property
    def mean(self):
        return self.average(lambda batch: batch.mean(axis=0))

    @property
    def std(self):
        mean = self.mean
        return np.sqrt(self.average(lambda batch: ((batch - mean) ** 2).mean(axis=0)))


class Oracle:
    """`sec:sweep2timescale`: -ln of a moving average of true counts, normalised like GEM's reward."""

    def __init__(self, num_states, scale, shift):
        self.num_states, self.scale, self.shift = num_states, scale, shift
        self.counts, self.raw = [], []

    def step(self, state):
        self.counts.append([sum(s == x for row in state for s in row) for x in range(self.num_states)])
        ages = range(len(self.counts))[::-1]
        average = sum(0.99**age * np.asarray(count) for age, count in zip(ages, self.counts, strict=True))
        probability = average / average.sum()
        raw = np.asarray([[-np.log(probability[s]) for s in row] for row in state])
        self.raw.append(raw)
        weight = [0.99**age for age in ages]
        mean = np.average([batch.mean() for batch in self.raw], weights=weight)
        std = np.average([batch.std() for batch in self.raw], weights=weight)
        return (raw - mean) / std * self.scale + self.shift


class Rnd:
    """Burda et al. 2018, section 2.4, for linear networks trained by gradient descent."""

    def __init__(self, target, predictor, learning_rate, return_decay=1.0):
        self.target, self.predictor = dense_layers(target)[0], list(dense_layers(predictor)[0])
        self.learning_rate, self.return_decay = learning_rate, return_decay
        self.observations, self.errors = RunningMoments(0.95), RunningMoments(0.95)
        self.all_errors = []

    def step(self, next_observation):
        """Returns the error of each step before learning. `next_observation` is [time][environment]."""
        num_steps, num_envs = next_observation.shape[:2]
        self.observations.add(next_observation.reshape(num_steps * num_envs, -1))
        mean, std = self.observations.mean, self.observations.std
        error = np.zeros((num_steps, num_envs))
        gradient = [np.zeros_like(weight) for weight in self.predictor]
        for t in range(num_steps):
            for w in range(num_envs):
                x = np.clip((next_observation[t, w] - mean) / std, -5, 5)
                difference = x @ self.predictor[0] + self.predictor[1] - x @ self.target[0] - self.target[1]
                error[t, w] = (difference**2).mean()
                share = 2 * difference / len(difference) / (num_steps * num_envs)
                gradient[0] += np.outer(x, share)
                gradient[1] += share
        self.errors.add(error.reshape(-1))
        self.all_errors.extend(error)
        self.num_steps = num_steps
        for weight, slope in zip(self.predictor, gradient, strict=True):
            weight -= self.learning_rate * slope
        return error

    def reward(self, error, scale, divisor):
        return scale * error / (self.errors.std if divisor == "error" else self.return_std())

    def return_std(self):
        """The standard deviation, over all steps so far, of the errors' sum discounted by 0.99 per step of age.

        A step's weight falls with the number of rollouts since it was taken.
        """
        returns = np.array(
            [
                sum(0.99 ** (t - age) * self.all_errors[age] for age in range(t + 1))
                for t in range(len(self.all_errors))
            ]
        )
        rollout = np.arange(len(returns)) // self.num_steps
        weight = np.broadcast_to(self.return_decay ** (rollout[-1] - rollout)[:, None], returns.shape)
        mean = np.average(returns, weights=weight)
        return np.sqrt(np.average((returns - mean) ** 2, weights=weight))

    def modulator(self, error):
        """Badia et al. 2020, equation 1 and section 2 on the life-long novelty module."""
        alpha = 1 + (error - self.errors.mean) / self.errors.std
        return np.minimum(np.maximum(alpha, 1), 5)


class InverseDynamics:
    """An embedding f and an action predictor h of two layers each, as in NGU and E3B."""

    def __init__(self, parameters, learning_rate):
        self.f = [list(layer) for layer in dense_layers(parameters["embedding"])]
        self.h = [list(layer) for layer in dense_layers(parameters["action"])]
        self.learning_rate = learning_rate

    def learn(self, observation, next_observation, action):
        """Maximises the likelihood of the action by gradient descent, with the chain rule by hand."""
        gradient = [[np.zeros_like(weight) for weight in layer] for layer in self.f + self.h]
        for t in range(action.shape[0]):
            for w in range(action.shape[1]):
                before, after = forward(self.f, observation[t, w]), forward(self.f, next_observation[t, w])
                both = forward(self.h, np.concatenate([before[-1], after[-1]]))
                probability = np.exp(both[-1] - both[-1].max())
                probability /= probability.sum()
                slope = (probability - np.eye(len(probability))[action[t, w]]) / action.size
                slope = backward(self.h, gradient[2:], both, slope)
                backward(self.f, gradient[:2], before, slope[: len(before[-1])])
                backward(self.f, gradient[:2], after, slope[len(before[-1]) :])
        for layer, slopes in zip(self.f + self.h, gradient, strict=True):
            for weight, slope in zip(layer, slopes, strict=True):
                weight -= self.learning_rate * slope


class Ngu(InverseDynamics):
    """Badia et al. 2020, section 2 and Algorithm 1, with an embedding and a predictor of two layers each."""

    def __init__(self, parameters, num_envs, learning_rate, *, k, s_max, capacity, decay):
        super().__init__(parameters, learning_rate)
        self.k, self.s_max, self.capacity, self.decay = k, s_max, capacity, decay
        self.memory = [[] for _ in range(num_envs)]
        self.distance_sum, self.distance_count = np.zeros(num_envs), np.zeros(num_envs)

    def step(self, observation, next_observation, action, is_first):
        reward = np.zeros(action.shape)
        for t in range(action.shape[0]):
            for w in range(action.shape[1]):
                if is_first[t, w]:
                    self.memory[w] = []
                self.memory[w] = [*self.memory[w], forward(self.f, observation[t, w])[-1]][-self.capacity :]
                reward[t, w] = self.episodic_reward(w, forward(self.f, next_observation[t, w])[-1])
        self.learn(observation, next_observation, action)
        return reward

    def episodic_reward(self, w, embedding, eps=1e-3, xi=0.008, c=0.001):
        d_k = sorted(((embedding - entry) ** 2).sum() for entry in self.memory[w])[: self.k]
        self.distance_sum[w] = self.decay * self.distance_sum[w] + sum(d_k)
        self.distance_count[w] = self.decay * self.distance_count[w] + len(d_k)
        d_m = self.distance_sum[w] / self.distance_count[w]
        d_n = [max(d / d_m - xi, 0) if d > 0 else 0 for d in d_k]
        s = np.sqrt(sum(eps / (d + eps) for d in d_n)) + c
        return 0 if s > self.s_max else 1 / s


class E3b(InverseDynamics):
    """Henaff et al. 2022, Algorithm 1, with C inverted anew at every step instead of updated."""

    def __init__(self, parameters, num_envs, learning_rate, *, ridge, scale):
        super().__init__(parameters, learning_rate)
        self.ridge, self.scale, self.moments = ridge, scale, RunningMoments(0.99)
        self.memory = [[] for _ in range(num_envs)]

    def step(self, observation, next_observation, action, is_first, is_valid):
        bonus = np.zeros(action.shape)
        for t in range(action.shape[0]):
            for w in range(action.shape[1]):
                if not is_valid[t, w]:
                    continue
                if is_first[t, w]:
                    self.memory[w] = []
                phi = forward(self.f, next_observation[t, w])[-1]
                covariance = self.ridge * np.eye(len(phi)) + sum(np.outer(y, y) for y in self.memory[w])
                bonus[t, w] = phi @ np.linalg.inv(covariance) @ phi
                self.memory[w].append(phi)
        self.learn(observation, next_observation, action)
        return self.scale * bonus / std_before(self.moments, bonus[is_valid])


class Re3:
    """Seo et al. 2021, with the mean over the k nearest neighbours, pair by pair.

    With a capacity, neighbours are the last states before each time step. Otherwise they are all other states.
    """

    def __init__(self, encoder, *, k, scale, capacity=None):
        self.encoder, self.k, self.scale, self.capacity = dense_layers(encoder), k, scale, capacity
        self.moments, self.memory = RunningMoments(0.99), []

    def step(self, next_observation, is_valid):
        y = np.stack([[forward(self.encoder, x)[-1] for x in row] for row in next_observation])
        distance, exists = np.zeros(is_valid.shape), np.zeros(is_valid.shape, bool)
        for t in range(len(y)):
            for w in np.flatnonzero(is_valid[t]):
                others = self.memory
                if self.capacity is None:
                    others = [y[i] for i in np.ndindex(is_valid.shape) if is_valid[i] and i != (t, w)]
                nearest = sorted(np.sqrt(((y[t, w] - other) ** 2).sum()) for other in others)[: self.k]
                exists[t, w] = bool(nearest)
                distance[t, w] = sum(nearest) / max(len(nearest), 1)
            if self.capacity is not None:
                self.memory = [*self.memory, *y[t][is_valid[t]]][-self.capacity :]
        return self.scale * np.log(1 + distance / std_before(self.moments, distance[exists]))


def std_before(moments, batch):
    """Returns the standard deviation of all earlier batches, or of this one if it is the first. Adds the batch."""
    known = moments.std if moments.batches else None
    moments.add(batch)
    return moments.std if known is None else known


def dense_layers(parameters):
    """Returns kernel and bias of each layer, in order."""
    layers = parameters["params"]
    return [
        (np.array(layers[name]["kernel"], np.float64), np.array(layers[name]["bias"], np.float64))
        for name in sorted(layers)
    ]


def forward(layers, x):
    """Returns the input and the outputs of two layers with a ReLU in between."""
    hidden = np.maximum(x @ layers[0][0] + layers[0][1], 0)
    return [x, hidden, hidden @ layers[1][0] + layers[1][1]]


def backward(layers, gradient, values, slope):
    """Adds to the gradient of two layers, given the slope of their output. Returns the slope of their input."""
    x, hidden, _ = values
    gradient[1][0] += np.outer(hidden, slope)
    gradient[1][1] += slope
    slope = (layers[1][0] @ slope) * (hidden > 0)
    gradient[0][0] += np.outer(x, slope)
    gradient[0][1] += slope
    return layers[0][0] @ slope


def at_steps(observations, num_envs):
    """Returns observations by time and environment, in float64."""
    rows = np.asarray(observations.rows, np.float64)
    if observations.row_index is None:
        return rows.reshape(-1, num_envs, *rows.shape[1:])
    return rows[np.asarray(observations.row_index)]
