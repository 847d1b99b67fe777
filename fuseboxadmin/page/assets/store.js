// @ts-check

// What the page knows. It lists the breakers once, follows the events from
// there, and asks again for the numbers of those that somebody looks at.

import { Refused, get, report } from './api.js';
import { note } from './format.js';
import { listen } from './live.js';
import { filters, look } from './look.js';

/** @typedef {import('./types').Breaker} Breaker */
/** @typedef {import('./types').Transition} Transition */
/** @typedef {import('./types').News} News */

const pollEvery = 1000; // milliseconds
const maxOnly = 200; // names in a request, by the API
const maxQuery = 4000; // characters of them: proxies cut long addresses off
const sampleEvery = 10_000;
const rateOver = 8000;
const seenEvery = 2000;
const kept = 6 * 3600_000; // of events
const mostEvents = 16_384; // of them, as a server keeps
const relistEvery = 10_000; // while there is no stream

/** @typedef {import('./types').Totals} Totals */

/**
 * told is what an event of the program's own says: a text, or an object that has texts under one of these names.
 * @param {any} data
 */
function told(data) {
  const texts = typeof data === 'string' ? [data] : [
    data?.success === false && 'failed', data?.text, data?.message, data?.changes, data?.errors?.[0]?.message, data?.cause,
  ];
  return texts.filter((t) => typeof t === 'string' && t !== '').join(', ');
}

/**
 * queries ask for breakers by name, in as few requests as the names fit into.
 * @param {string[]} names
 */
function queries(names) {
  /** @type {string[]} */
  const found = [];
  let room = 0;
  for (const name of names) {
    const part = `only=${encodeURIComponent(name)}`;
    if (room === 0 || found[found.length - 1].length + part.length > maxQuery) {
      found.push(part);
      room = maxOnly;
    } else found[found.length - 1] += `&${part}`;
    room--;
  }
  return found;
}

/**
 * lifts is whether a record says that a breaker's override is over.
 * @param {Breaker} b as it was before
 * @param {Transition} t
 */
function lifts(b, t) {
  switch (t.cause) {
    case 'lift':
      return true;
    case 'reset': // leaves alone what does not force a state
      return b.mode === 'force-open' || b.mode === 'force-closed';
    case 'override-ended': // of one that was over before it began, the one before goes on
      return t.note?.until === b.note?.until;
    default:
      return false;
  }
}

/**
 * empty empties the window of a breaker, but for the run of failures.
 * @param {Breaker} b
 * @param {number} run
 */
function empty(b, run) {
  Object.assign(b, { counts: { calls: 0, failures: 0, slow: 0, consecutive: run }, failure_rate: 0, slow_rate: 0 });
  b.rules = b.rules.map((r) => {
    if (r.cause === 'trip-when') return r;
    if (r.cause === 'consecutive') return { ...r, value: run, calls_to_trip: Math.max(r.threshold - run, 1) };
    return { ...r, value: 0, enough: r.min_calls === 0, calls_to_trip: Math.max(r.min_calls, 1) };
  });
}

/**
 * Store tells of changes by events: "change" (something is different), "opening" (a breaker has tripped, in detail), "status".
 */
export class Store extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, Breaker>} */
    this.breakers = new Map();
    /** @type {string[]} */
    this.hidden = [];
    /** @type {Map<string, import('./types').Detail>} */
    this.details = new Map();
    /** @type {Map<string, { at: number, totals: Totals }[]>} */
    this.samples = new Map();
    /** @type {{ at: number, totals: Totals }[]} of the selected breaker, since it is */
    this.seen = [];
    /** @type {import('./types').Sample[]} of all breakers, oldest first */
    this.sums = [];
    /** @type {import('./types').Event[]} oldest first */
    this.events = [];
    this.known = Infinity; // from when on events are complete, but for those missed
    this.upTo = 0; // id of the last event that was told, by the stream or a history
    /** @type {number | null} id of the event after which some are missing; 0: all are */
    this.missed = 0;
    this.retry = 0; // the timer after which what is missing is asked for again
    /** @type {Map<string, Transition[]>} */
    this.timeline = new Map();
    /** @type {import('./types').AuditRecord[]} and what the program has told of itself, oldest first */
    this.written = [];
    /** @type {import('./types').AuditRecord[]} of those that were refused, oldest first */
    this.refused = [];
    /** @type {import('./types').AuditRecord[] | null} both of them, once asked for */
    this.both = null;
    /** @type {import('./types').Mark[]} oldest first */
    this.marked = [];
    /** @type {import('./types').ConfigEntry[]} */
    this.config = [];
    /** @type {string | null} */
    this.selected = null;
    this.range = 3600; // seconds of the time axis
    /** @type {Set<string>} names that somebody looks at */
    this.watched = new Set();
    /** @type {Set<string>} names of which an event has told, but not all that it has changed */
    this.stale = new Set();
    /** @type {import('./types').Status} */
    this.status = 'connecting';
    /** @type {import('./types').Status} what the stream said last */
    this.streamed = 'connecting';
    this.contact = 0; // when the server last said something, by its clock
    this.offset = 0; // of the server's clock
    this.last = 0; // id of the last event applied
    /** @type {Map<string, number>} id of the last event of each breaker */
    this.touched = new Map();
    /** @type {Extract<News, { type: 'event' }>[] | null} what comes while the breakers are listed */
    this.waiting = null;
    this.ready = false; // there is a list
    this.listening = false;
    this.told = false;
    this.listed = false; // soon
    this.listedAt = 0;
    this.listedIn = 0; // milliseconds that a list takes
    this.frozen = 0; // the time in a report
    this.error = ''; // why there is no list
    this.why = ''; // why the server refuses the stream
  }

  now() {
    return this.frozen || Date.now() + this.offset;
  }

  async start() {
    await this.list();
    try {
      this.config = (await get('api/config')).entries ?? [];
    } catch {
      // A program without a file: it has no such address.
    }
    this.changed();
    if (report) return;
    void this.poll();
    void this.sample();
  }

  /** list reads the breakers anew. What happens meanwhile is applied afterwards. */
  async list() {
    if (this.waiting) return;
    this.waiting = [];
    this.listedAt = Date.now();
    for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
      try {
        const began = Date.now();
        const list = await get('api/breakers');
        this.listedIn = Date.now() - began;
        this.breakers = new Map(list.breakers.map((/** @type {Breaker} */ b) => [b.name, b]));
        this.hidden = list.hidden ?? [];
        this.touched.clear();
        this.stale.clear();
        this.last = list.last_event_id;
        if (!this.ready) this.upTo = this.last;
        this.heard(list.now);
        this.contact = this.now();
        this.ready = true;
        break;
      } catch (error) {
        if (report) throw error;
        this.error = error instanceof Refused ? error.message : '';
        this.become('lost');
        await new Promise((resume) => setTimeout(resume, wait));
      }
    }
    this.error = '';
    if (this.listening) this.become(this.streamed); // a list that failed said "lost"
    const waiting = this.waiting;
    this.waiting = null;
    for (const event of waiting) this.receive(event);
    if (!this.listening && !report) {
      this.listening = true;
      listen(this.last, (news) => this.receive(news));
    }
    this.changed();
    await this.complete();
    if (this.selected !== null) await this.detail(this.selected);
  }

  /** complete reads the events that are missing: those of the time axis, or those after one that is known. */
  async complete() {
    const after = this.missed;
    if (after === null) return;
    this.missed = null;
    const from = after > 0 && this.known < Infinity ? this.known : this.now() - this.range * 1000;
    try {
      const past = await get(`api/history?since=${new Date(from).toISOString()}${after > 0 ? `&last_event_id=${after}` : ''}`);
      const since = Date.parse(past.since);
      // Of a later time, the answer has all that there is: the one asked for is gone.
      const before = after > 0 && since <= from ? this.events.filter((e) => e.id <= after) : [];
      if (before.length === 0) this.known = since;
      this.events = [...before, ...past.events, ...this.events.filter((e) => e.id > past.last_event_id)];
      this.upTo = Math.max(this.upTo, past.last_event_id);
      this.sums = past.samples;
      this.refuse(past.refused ?? []);
      this.derive();
      this.changed();
    } catch (error) {
      // A report may lack it. A server may have too many to send; until then the
      // bands begin now.
      this.known = Math.min(this.known, this.now());
      if (report || (error instanceof Refused && error.status === 404)) return;
      this.missed = Math.min(after, this.missed ?? after);
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.complete(), 3000);
    }
  }

  /** derive sorts the events by what they are about. */
  derive() {
    this.timeline = new Map();
    this.written = [];
    this.marked = [];
    this.both = null;
    for (const e of this.events) this.keep(e);
  }

  /** audits are who has changed what, or tried to, and what the program has told of itself, newest first. */
  get audits() {
    this.both ??= [...this.written, ...this.refused].map((r) => ({ r, at: Date.parse(r.at) })).sort((x, y) => x.at - y.at).map(({ r }) => r).reverse();
    return this.both;
  }

  /** @param {import('./types').AuditRecord[]} refused the writes that were, oldest first */
  refuse(refused) {
    if (JSON.stringify(refused) === JSON.stringify(this.refused)) return;
    this.refused = refused;
    this.both = null;
    this.changed();
  }

  /**
   * log keeps an event that the stream has told, and reports whether there are others before it that it has not.
   * @param {Extract<News, { type: 'event' }>} event
   */
  log({ kind, id, data }) {
    const before = this.upTo;
    if (kind !== 'reset' && id <= before) return false; // the history has told it already
    this.upTo = id;
    if (id < before) { // another program, whose ids begin anew
      this.events = [];
      this.missed = 0;
      return true;
    }
    const gap = kind === 'reset' || id > before + 1;
    if (gap) this.missed ??= before;
    if (kind === 'reset' || kind === 'list') return gap;
    const e = { id, at: new Date(this.now()).toISOString(), event: kind, data };
    this.events.push(e);
    this.keep(e);
    if (this.events.length > mostEvents * 1.1) this.forget();
    return gap;
  }

  /** @param {import('./types').Event} e */
  keep({ at, event, data }) {
    if (event === 'transition') {
      const records = this.timeline.get(data.name);
      if (records) records.push(data);
      else this.timeline.set(data.name, [data]);
      return;
    }
    this.both = null;
    if (event === 'audit') {
      this.written.push(data);
      const text = [data.name, data.mode ?? data.action, note(data, 'by ')].filter(Boolean).join(', ');
      this.marked.push({ at: Date.parse(data.at), text, name: data.name });
    } else {
      const more = told(data);
      this.marked.push({ at: Date.parse(at), text: more ? `${event}: ${more}` : event, name: '' });
      this.written.push({ at, action: event, name: '', reason: more, remote: '', status: 200 });
    }
  }

  /**
   * records are the transitions of a breaker, oldest first.
   * @param {string} name
   */
  records(name) {
    return this.timeline.get(name) ?? [];
  }

  /**
   * marks are those after a time: of a breaker and of all, or without a name all there are.
   * @param {number} from
   * @param {string} [name]
   */
  marks(from, name) {
    return this.marked.filter((m) => m.at > from && (name === undefined || m.name === '' || m.name === name));
  }

  /**
   * show sets how long the time axis is.
   * @param {number} range seconds
   */
  async show(range) {
    this.range = range;
    if (report || !this.ready || this.known <= this.now() - range * 1000) return;
    this.missed = 0;
    await this.complete();
  }

  /**
   * select follows one breaker with all there is to know of it.
   * @param {string | null} name
   */
  async select(name) {
    if (this.selected !== name) this.seen = [];
    this.selected = name;
    if (name !== null && this.ready) await this.detail(name);
  }

  /** @param {string} name */
  async detail(name) {
    const b = this.breakers.get(name);
    if (!b) return;
    try {
      const before = this.last;
      const d = await get(b.path);
      const newer = this.details.get(name);
      if (newer && Date.parse(newer.now) > Date.parse(d.now)) return; // of two that were asked for, the last came first
      this.details.clear();
      this.details.set(name, d);
      if (!report) {
        this.heard(d.now);
        this.merge(d, d.now, before);
      }
      this.changed();
    } catch {
      // It may have gone; the list says so.
    }
  }

  /** @param {string} now the server's time in an answer */
  heard(now) {
    if (report) this.frozen = Date.parse(now);
    this.offset = Date.parse(now) - Date.now();
  }

  /** @param {import('./types').Status} status */
  become(status) {
    if (this.status === status) return;
    this.status = status;
    this.dispatchEvent(new Event('status'));
  }

  /** @param {News} news */
  receive(news) {
    switch (news.type) {
      case 'status':
        this.streamed = news.status;
        this.why = news.why ?? '';
        this.become(news.status);
        break;
      case 'beat':
        this.contact = this.now();
        break;
      case 'event':
        this.event(news);
    }
  }

  /** @param {Extract<News, { type: 'event' }>} event */
  event(event) {
    if (this.waiting) {
      this.waiting.push(event);
      return;
    }
    const gap = this.log(event);
    if (event.kind === 'reset' || event.id > this.last + 1) {
      void this.list(); // some are missing
      return;
    }
    if (gap) void this.complete();
    if (event.id <= this.last) return; // the list has it
    this.last = event.id;
    this.apply(event);
    this.changed();
  }

  /** relist reads the breakers anew, soon: where many come, once, and never most of the time. */
  relist() {
    if (this.listed) return;
    this.listed = true;
    setTimeout(() => {
      this.listed = false;
      void this.list();
    }, Math.max(200, this.listedAt + 20 * this.listedIn - Date.now()));
  }

  /** @param {Extract<News, { type: 'event' }>} event */
  apply({ kind, id, data }) {
    if (kind === 'list') {
      this.relist();
      return;
    }
    if (kind !== 'transition') return;
    const b = this.breakers.get(data.name);
    if (!b) {
      this.relist();
      return;
    }
    this.record(b, data);
    this.touched.set(b.name, id);
    this.stale.add(b.name);
    if (b.name === this.selected) void this.detail(b.name);
  }

  /**
   * record makes a breaker what a record says that it is: what the server would show, but for the totals, and what
   * other settings mean for the rules. Those are asked for with the next numbers.
   * @param {Breaker} b
   * @param {Transition} t
   */
  record(b, t) {
    if (t.from === 'closed' && t.to === 'open' && t.mode !== 'shadow') this.dispatchEvent(new CustomEvent('opening', { detail: t }));
    if (lifts(b, t)) Object.assign(b, { override: undefined, note: undefined });
    if (t.cause === 'override') Object.assign(b, { override: true, note: t.note });
    const entered = t.from !== t.to || t.cause === 'reset';
    const forcedAnew = t.cause === 'override' && t.mode === 'force-open';
    Object.assign(b, {
      state: t.to, mode: t.mode, generation: t.generation, until: t.until, last: t,
      judged: t.to === 'closed' && (t.mode === 'enforce' || t.mode === 'shadow'),
    });
    if (entered || forcedAnew) Object.assign(b, { since: t.at, open_period: undefined });
    if (entered) b.outstanding = t.cause === 'deadline' ? 1 : 0; // it is the call that has found it due
    // A forced-closed breaker keeps its run of failures, and nothing else.
    if (entered) empty(b, 0);
    else if (t.cause === 'override' && t.mode === 'force-closed') empty(b, t.counts.consecutive);
  }

  /** changed tells of changes, once for all those of a moment. */
  changed() {
    if (this.told) return;
    this.told = true;
    queueMicrotask(() => {
      this.told = false;
      this.dispatchEvent(new Event('change'));
    });
  }

  /** poll asks for the numbers of what somebody looks at. */
  async poll() {
    for (;;) {
      const began = Date.now();
      if (this.streamed === 'lost' && began - this.listedAt > relistEvery) this.relist();
      if (!document.hidden) {
        const wanted = new Set([...this.watched, ...[...this.stale].slice(0, maxOnly)]);
        const rows = [...wanted].filter((name) => name !== this.selected && this.breakers.has(name));
        await Promise.all([this.selected !== null && this.detail(this.selected), ...queries(rows).map((q) => this.refresh(q))]);
      }
      await new Promise((resume) => setTimeout(resume, Math.max(100, began + pollEvery - Date.now())));
    }
  }

  /** @param {string} query that names breakers */
  async refresh(query) {
    try {
      const list = await get(`api/breakers?${query}`);
      this.heard(list.now);
      for (const b of list.breakers) {
        if (b.name !== this.selected) this.merge(b, list.now, list.last_event_id); // that one is asked for by itself
      }
      this.changed();
    } catch {
      // The stream says whether the connection is there.
    }
  }

  /**
   * merge takes a breaker over, unless an event has told something newer.
   * @param {Breaker} b
   * @param {string} now the server's time in the answer
   * @param {number} id of an event before the answer
   */
  merge(b, now, id) {
    if ((this.touched.get(b.name) ?? 0) > id) return;
    this.breakers.set(b.name, b);
    this.stale.delete(b.name);
    if (!this.watched.has(b.name) && b.name !== this.selected) return;
    const at = Date.parse(now);
    const samples = (this.samples.get(b.name) ?? []).filter((s) => s.at < at && at - s.at <= rateOver);
    samples.push({ at, totals: b.totals });
    this.samples.set(b.name, samples);
    if (b.name !== this.selected) return;
    if (this.seen.some((s) => s.at > at)) this.seen = []; // the clock of the server was set back
    if (at - (this.seen[this.seen.length - 1]?.at ?? 0) < seenEvery) return;
    this.seen.push({ at, totals: b.totals });
    while (this.seen[1] && this.seen[1].at < at - 900_000) this.seen.shift();
  }

  /** forget drops what is older than the axis, or more than a server keeps. */
  forget() {
    const old = this.now() - kept;
    const rest = this.events.filter((e) => Date.parse(e.at) > old).slice(-mostEvents);
    if (rest.length === this.events.length) return;
    this.known = Math.max(this.known, rest[0] ? Date.parse(rest[0].at) : this.now());
    this.events = rest;
    this.derive();
  }

  /** sample asks for what all breakers have counted since it was asked last. */
  async sample() {
    for (;;) {
      await new Promise((resume) => setTimeout(resume, sampleEvery));
      this.forget();
      if (document.hidden) continue;
      const last = this.sums[this.sums.length - 1];
      try {
        const since = last ? last.at : new Date(this.now() - this.range * 1000).toISOString();
        const past = await get(`api/history?since=${encodeURIComponent(since)}&last_event_id=${this.upTo}`);
        this.refuse(past.refused ?? []);
        const now = this.now();
        const fresh = past.samples.filter((/** @type {import('./types').Sample} */ s) => !last || Date.parse(s.at) > Date.parse(last.at));
        this.sums = [...this.sums, ...fresh].filter((s) => now - Date.parse(s.at) < kept);
      } catch {
        // The next time will do.
      }
    }
  }

  /**
   * points are how often something of the selected breaker happened.
   * @param {(t: Totals) => number} count
   * @returns {import('./types').Point[]}
   */
  points(count) {
    return this.seen.slice(1).map(({ at, totals }, i) => {
      const before = this.seen[i];
      return { from: before.at, to: at, value: Math.max(0, (count(totals) - count(before.totals)) / ((at - before.at) / 1000)) };
    });
  }

  /**
   * sum is how often something happened over all breakers.
   * @param {(s: import('./types').Sample) => number} count
   * @returns {import('./types').Point[]}
   */
  sum(count) {
    return this.sums.map((s) => {
      const [from, to] = [Date.parse(s.from), Date.parse(s.at)];
      return { from, to, value: count(s) / ((to - from) / 1000) };
    });
  }

  /**
   * rate is how often something of the totals happens a second; null until it is known.
   * @param {string} name
   * @param {(t: Totals) => number} count
   */
  rate(name, count) {
    const samples = this.samples.get(name) ?? [];
    const first = samples[0];
    const last = samples[samples.length - 1];
    if (samples.length < 2 || last.at - first.at < 500) return null;
    return Math.max(0, (count(last.totals) - count(first.totals)) / ((last.at - first.at) / 1000));
  }

  /** @param {string[]} names of those that somebody looks at */
  watch(names) {
    this.watched = new Set(names);
    for (const n of this.samples.keys()) if (!this.watched.has(n)) this.samples.delete(n);
  }

  /** counts says how many breakers each filter would show. */
  counts() {
    const now = this.now();
    /** @type {Record<string, number>} */
    const counts = Object.fromEntries(Object.keys(filters).map((key) => [key, 0]));
    for (const b of this.breakers.values()) {
      const l = look(b, now);
      for (const key in filters) if (filters[key](l)) counts[key]++;
    }
    return counts;
  }

  /**
   * sorted returns the breakers that a filter lets through, the worst first.
   * @param {string} part of the name
   * @param {Set<string>} keys of filters; none is all
   */
  sorted(part, keys) {
    const now = this.now();
    const wanted = part.toLowerCase();
    const found = [];
    for (const b of this.breakers.values()) {
      if (!b.name.toLowerCase().includes(wanted)) continue;
      const l = look(b, now);
      if (keys.size === 0 || [...keys].some((key) => filters[key](l))) found.push({ b, l });
    }
    found.sort((x, y) => x.l.severity - y.l.severity || (x.b.name < y.b.name ? -1 : 1));
    return found;
  }
}
