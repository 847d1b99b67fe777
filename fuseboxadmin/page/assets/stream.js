// @ts-check

// Reads server-sent events with fetch. An EventSource would hide the comments
// that tell a quiet connection from a dead one, and begins anew without saying
// from where.

/** @typedef {import('./types').News} News */

const firstWait = 500; // milliseconds; doubles up to maxWait
const maxWait = 10_000;
const silence = 40_000; // the server says something every 15 s

/** Stream tells what comes, and comes back by itself, after the last event that it has told. */
export class Stream {
  /**
   * @param {string} url
   * @param {(news: News) => void} tell
   */
  constructor(url, tell) {
    this.url = url;
    this.tell = tell;
    this.last = 0;
    this.stopped = false;
    this.connection = new AbortController();
    /** @type {() => void} */
    this.hurry = () => {};
  }

  /**
   * run reads until stop, from the event after an id on.
   * @param {number} from
   */
  async run(from) {
    this.last = from;
    for (let wait = firstWait; !this.stopped; wait = Math.min(wait * 2, maxWait)) {
      try {
        this.connection = new AbortController();
        const response = await fetch(this.url, {
          headers: { 'Last-Event-ID': String(this.last) },
          cache: 'no-store',
          signal: this.connection.signal,
        });
        if (response.ok && response.body) {
          wait = firstWait / 2;
          this.tell({ type: 'status', status: 'live' });
          await this.read(response.body);
        }
      } catch {
        // The connection is gone: that is what the next line says.
      }
      if (this.stopped) return;
      this.tell({ type: 'status', status: 'lost' });
      await new Promise((resume) => {
        this.hurry = () => resume(undefined);
        setTimeout(resume, wait);
      });
    }
  }

  stop() {
    this.stopped = true;
    this.connection.abort();
    this.hurry();
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async read(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const { connection } = this; // a timer of this one must not end the next
    let text = '';
    for (;;) {
      const timer = setTimeout(() => connection.abort(), silence);
      const { value, done } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) this.block(block);
      this.tell({ type: 'beat' });
    }
  }

  /** @param {string} block */
  block(block) {
    let kind = '';
    let data = '';
    let id = 0;
    for (const line of block.split('\n')) {
      const colon = line.indexOf(':');
      const value = line.slice(colon + 1).trimStart();
      switch (line.slice(0, colon)) {
        case 'id': id = Number(value); break;
        case 'event': kind = value; break;
        case 'data': data += value; break;
      }
    }
    if (id) this.last = id;
    if (kind && id) this.tell({ type: 'event', id, kind, data: JSON.parse(data) });
  }
}
