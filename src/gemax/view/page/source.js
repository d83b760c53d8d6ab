// Where the data comes from: the local server, or the exported file that holds it all.

class ServerSource {
  isLive = true;

  async #get(path, pairs = []) {
    const query = new URLSearchParams(pairs).toString();
    const answer = await fetch(`api/${path}${query ? `?${query}` : ""}`);
    if (!answer.ok) throw new Error((await answer.text()) || `The server answered ${answer.status}.`);
    return answer.json();
  }

  index() { return this.#get("index"); }
  report() { return this.#get("report"); }
  warnings(run) { return this.#get("warnings", [["run", run]]); }
  snapshot(run, update) { return this.#get("snapshot", [["run", run], ["update", update]]); }
  curves(runs, metrics) {
    return this.#get("curves", [...runs.map((run) => ["run", run]), ...metrics.map((metric) => ["metric", metric])]);
  }
  filmAddress(run, update) { return `api/film?${new URLSearchParams([["run", run], ["update", update]])}`; }
  plotAddress(name) { return `api/plot?${new URLSearchParams([["name", name]])}`; }

  // Calls `onchange` with the names of changed runs, and `onlost` if the server is gone or back.
  listen(onchange, onlost) {
    const events = new EventSource("api/events");
    let wasLost = false;
    events.onopen = () => { if (wasLost) onlost(wasLost = false); };
    events.onerror = () => onlost(wasLost = true);
    events.onmessage = (event) => onchange(JSON.parse(event.data).changed);
  }
}

class FileSource {
  isLive = false;
  #data;

  constructor(data) { this.#data = data; }
  async index() { return this.#data.index; }
  async report() { return this.#data.report; }
  async warnings(run) { return this.#data.warnings[run] ?? []; }
  async snapshot(run, update) {
    return this.#data.snapshots[run]?.[update] ?? { message: "This snapshot is not part of the exported file." };
  }
  async curves(runs) { return Object.fromEntries(runs.map((run) => [run, this.#data.curves[run] ?? {}])); }
  filmAddress(run, update) { return this.#data.films[run]?.[update] ?? ""; }
  plotAddress(name) { return this.#data.plots[name] ?? ""; }
  listen() {}
}

function openSource() {
  const embedded = document.getElementById("data");
  return embedded ? new FileSource(JSON.parse(embedded.textContent)) : new ServerSource();
}

export const source = openSource();
