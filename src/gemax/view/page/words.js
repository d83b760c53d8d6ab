// How numbers are written, and what the metrics mean.

const METRICS = {
  recent_return: ["Return", "Mean return of the last 100 episodes"],
  return: ["Return over 1,000 episodes", "Mean return of the last 1,000 episodes"],
  entropy_share: ["Entropy", "Visitation entropy as a share of the best that any policy can reach"],
  visitation_entropy: ["Visitation entropy", "In nats, of a moving average of the visits"],
  coverage: ["Coverage", "Share of the cells that are visited"],
  intrinsic_reward: ["Intrinsic reward", "Mean per step, as the agent gets it"],
  raw_reward: ["Raw intrinsic reward", "Before it is standardised, in nats"],
  intrinsic_weight: ["Weight of the intrinsic reward", "Falls with the schedule of the run"],
  agent_loss: ["Loss of the agent", "Policy, value and entropy together"],
  policy_loss: ["Policy loss", "Of the actor"],
  value_loss: ["Value loss", "Of the critic"],
  gem_loss: ["Loss of f and g", "Of the geometry and the density"],
  gem_objective: ["Objective of GEM", "Estimates the geometric entropy from below, in nats"],
  action_entropy: ["Entropy of the actions", "In nats; 0 is a deterministic policy"],
  similarity_mean: ["Mean similarity", "Near 1, everything looks the same to f; near 0, everything is distinct"],
  effective_states: ["Effective states", "exp of the geometric entropy: how many distinct states are visited"],
  embedding_norm: ["Norm of the embedding", "Must not grow without limit"],
  log_g: ["Mean ln g", "ln of the inverse density, as g has learned it"],
  adjacency: ["Adjacency", "How far apart f puts states that are one step apart"],
  episodic_weight: ["Weight within episodes", "Of the entropy within episodes against that over all episodes"],
  overlap: ["Overlap of episodes", "How much different episodes have in common"],
  skipped_updates: ["Skipped updates", "Updates that were not finite"],
  clipped_importance_weights: ["Clipped importance weights", "Share of the steps whose importance weight is cut at 1"],
  policy_lag_updates: ["Lag of the actors", "Updates between the policy that acted and the one that learns"],
  lost_frames: ["Lost frames", "Steps that were lost with an actor"],
  actors: ["Actors", "Ray actors that are left"],
  rnd_loss: ["Loss of RND", "Prediction error; falls as the environment becomes familiar"],
  prediction_error_max: ["Largest prediction error", "Of the last rollout"],
  prediction_error_std: ["Spread of the prediction error", "What errors are divided by"],
  action_loss: ["Loss of the action prediction", "Trains the embedding"],
  action_accuracy: ["Accuracy of the action prediction", "Share of the actions that the embedding tells"],
  episodic_reward: ["Reward within episodes", "Mean before scaling"],
  memory_similarity: ["Similarity to the memory", "Of the episode so far"],
  neighbour_distance: ["Distance to the neighbours", "Mean over the nearest ones"],
  neighbour_distance_std: ["Spread of the distances", "What distances are divided by"],
  zero_distance_share: ["Steps at distance 0", "Share of the steps whose state is in the batch already"],
  modulator: ["Modulator", "Mean factor of RND, from 1 to 5"],
  elliptical_bonus: ["Elliptical bonus", "Mean before scaling"],
  elliptical_bonus_std: ["Spread of the bonus", "What the bonus is divided by"],
  raw_reward_max: ["Largest raw reward", "Of the last rollout"],
  raw_reward_std: ["Spread of the raw reward", "What rewards are divided by"],
};
for (const name of ["gem_objective", "raw_reward", "similarity_mean", "effective_states", "log_g"]) {
  METRICS[`episode_${name}`] = [`${METRICS[name][0]}, within episodes`, METRICS[name][1]];
}

export const SECTIONS = [
  ["How it explores", ["recent_return", "entropy_share", "coverage", "intrinsic_reward"], true],
  ["Losses", ["agent_loss", "policy_loss", "value_loss", "gem_loss", "rnd_loss", "action_loss", "action_entropy"], false],
  ["Diagnosis", ["similarity_mean", "effective_states", "embedding_norm", "log_g", "gem_objective", "raw_reward",
    "adjacency", "episodic_weight", "overlap", "skipped_updates"], false],
];
export const SHARES = new Set(["entropy_share", "coverage", "overlap", "episodic_weight", "similarity_mean", "episode_similarity_mean",
  "clipped_importance_weights", "action_accuracy", "zero_distance_share"]);
export const AXES = { update: "updates", frames: "frames", seconds: "seconds" };

export function title(metric) { return METRICS[metric]?.[0] ?? metric.replaceAll("_", " "); }
export function meaning(metric) { return METRICS[metric]?.[1] ?? "As logged in metrics.jsonl"; }

const whole = new Intl.NumberFormat("en");
export function count(value) { return value === null || value === undefined ? "–" : whole.format(Math.round(value)); }
export function percent(share, digits = 1) { return `${(100 * share).toFixed(digits)} %`; }

// Writes a number with about three digits.
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(Math.round(value));
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

export function metricValue(metric, value) {
  if (value === null || value === undefined) return "–";
  return SHARES.has(metric) ? percent(value) : short(value);
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export const STATUS = {
  training: "training", finished: "finished", stopped: "stopped", frozen: "stopped: not finite",
  interrupted: "ended without a summary", empty: "no metrics yet",
};
