// @ts-check

// Reads server-sent events with fetch. An EventSource would hide the comments
// that tell a quiet connection from a dead one, and begins anew without saying
// from where.

/** @typedef {import('./types').News} News */

const firstWait = 500; // milliseconds; doubles up to maxWait
const maxWait = 10_000;
const silence = 40_000; // the server says something every 15 s
const headWait = 20_000; // it answers at once; what accepts a connection may not

/**
 * reasonOf says why an answer is not a success: what the API says, or what little a proxy between tells.
 * @param {Response} response
 * @param {string} text of its body
 * @returns {{ error: string, field?: string }}
 */
export function reasonOf(response, text) {
  try {
    const { error, field } = JSON.parse(text);
    if (typeof error === 'string') return { error, field };
  } catch {
    // A proxy has its own words, in no form that is known.
  }
  return { error: `the answer was ${`${response.status} ${response.statusText}`.trim()}` };
}

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
      let why = '';
      try {
        this.connection = new AbortController();
        const response = await this.within(headWait, fetch(this.url, {
          headers: { 'Last-Event-ID': String(this.last) },
          cache: 'no-store',
          signal: this.connection.signal,
        }));
        if (response.ok && response.body) {
          wait = firstWait / 2;
          this.tell({ type: 'status', status: 'live' });
          await this.read(response.body);
        } else why = reasonOf(response, await this.within(headWait, response.text())).error;
      } catch {
        // The connection is gone: that is what the next lines say.
      }
      if (this.stopped) return;
      this.tell({ type: 'status', status: 'lost', why });
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

  /**
   * within waits for something that the present connection owes, and ends that if it takes too long.
   * @template T
   * @param {number} time milliseconds
   * @param {Promise<T>} owed
   */
  async within(time, owed) {
    const { connection } = this; // a timer of this one must not end the next
    const timer = setTimeout(() => connection.abort(), time);
    try {
      return await owed;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async read(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      const { value, done } = await this.within(silence, reader.read());
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
