// The rows of requests as they change, in one stream for the whole page. Listeners come and go with the views.

import { readEvents } from "./event_stream.js";
import { request } from "./server.js";

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;

export class LiveRows {
  /** @param {(state: "live"|"connecting") => void} onstate */
  constructor(onstate) {
    this.onstate = onstate;
    this.listeners = new Set();
    this.stopping = null;
  }

  /** @param {{row: (row: object) => void, reconnected: () => void}} listener @returns {() => void} ends it */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start() {
    if (this.stopping) return;
    this.stopping = new AbortController();
    this.run(this.stopping.signal);
  }

  stop() {
    this.stopping?.abort();
    this.stopping = null;
  }

  async run(signal) {
    let pause = FIRST_PAUSE;
    for (let first = true; !signal.aborted; first = false) {
      this.onstate("connecting");
      try {
        const answer = await request("/inspector/live", { signal });
        this.onstate("live");
        pause = FIRST_PAUSE;
        // Rows may have changed meanwhile.
        if (!first) this.each("reconnected");
        for await (const { event, data } of readEvents(answer)) if (event === "row") this.each("row", JSON.parse(data));
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
      }
      this.onstate("connecting");
      await passed(pause, signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  each(name, argument) {
    for (const listener of [...this.listeners]) listener[name]?.(argument);
  }
}

function passed(milliseconds, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", resolve, { once: true });
  });
}
