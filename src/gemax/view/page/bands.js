// The mean of several curves and the 95 % confidence interval of it.

// Two-sided 95 % quantiles of Student's t distribution, by degrees of freedom.
const STUDENT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];
const GRID = 120;

// Returns the value of a curve at x by linear interpolation, or null outside of the curve and in gaps.
export function valueAt(xs, ys, x) {
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  if (xs[high] === x) return ys[high];
  if (ys[low] === null || ys[high] === null) return xs[low] === x ? ys[low] : null;
  const width = xs[high] - xs[low];
  return width ? ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / width : ys[low];
}

// Returns mean, lower and upper end of the interval where at least two curves have a value.
export function band(curves) {
  const filled = curves.filter(({ x }) => x.length);
  const result = { x: [], mean: [], low: [], high: [] };
  if (!filled.length) return result;
  const start = Math.min(...filled.map(({ x }) => x[0]));
  const end = Math.max(...filled.map(({ x }) => x[x.length - 1]));
  for (let step = 0; step <= GRID; step += 1) {
    const x = start + (end - start) * step / GRID;
    const values = filled.map((curve) => valueAt(curve.x, curve.y, x)).filter((value) => value !== null);
    if (values.length < 2) continue;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
    const half = (STUDENT[values.length - 2] ?? 1.96) * Math.sqrt(variance / values.length);
    result.x.push(x);
    result.mean.push(mean);
    result.low.push(mean - half);
    result.high.push(mean + half);
  }
  return result;
}
