// Requests to the server. The address of the page has the token, so relative addresses have it too.

const CLIENT = crypto.randomUUID();
let count = 0;

/** An answer of 4xx or 5xx with its message. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function answered(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The explorer does not answer. Was it stopped in the terminal?", 0);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Refused(body.error || `The explorer answered ${response.status}.`, response.status);
}

export const get = (path, signal) => answered(fetch(path, { signal }));

/** Asks about a result: newer requests of this page replace older ones on the server too. */
export function post(path, body, signal) {
  count += 1;
  return answered(
    fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ client: CLIENT, number: count, ...body }),
      signal,
    }),
  );
}

/** The JSON header of a message, and the planes of bytes after it. */
export async function unpacked(response, pixels) {
  const buffer = await response.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const planes = [];
  for (let at = 4 + length; at + pixels <= buffer.byteLength; at += pixels) {
    planes.push(new Uint8Array(buffer, at, pixels));
  }
  return { header, planes };
}

/**
 * Runs one job at a time, and then the newest of those that came meanwhile; the others are dropped.
 * A job that takes longer than `patience` milliseconds is aborted once a newer one waits. After that the patience is
 * doubled until a job is done, so that a slow computer shows some of the results while a slider moves.
 */
export function newestOnly(work, patience = 250) {
  let running = null;
  let waiting = null;
  let limit = patience;
  let timer = 0;

  async function run(job) {
    const controller = new AbortController();
    running = { controller, since: performance.now() };
    try {
      await work(job, controller.signal);
      limit = patience;
    } catch (error) {
      if (error.name === "AbortError") limit *= 2;
      else if (error.status !== 409) console.error(error);
    }
    clearTimeout(timer);
    running = null;
    if (waiting) {
      const { job: next } = waiting;
      waiting = null;
      run(next);
    }
  }

  return {
    ask(job) {
      if (!running) {
        run(job);
        return;
      }
      waiting = { job };
      const { controller, since } = running;
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), Math.max(0, limit - (performance.now() - since)));
    },
    cancel() {
      waiting = null;
      running?.controller.abort();
    },
  };
}
