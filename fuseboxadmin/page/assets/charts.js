// @ts-check

// The charts: a band of states, bars of buckets, a line over time, a bar up to
// a threshold. Each says in words what it shows.

import { h, s, say, set } from './dom.js';
import { clock, exactly, minute, number, percent, perSecond, ruleName, sentence, span } from './format.js';

/** @typedef {import('./types').Transition} Transition */

/**
 * Period is a time in one state.
 * @typedef {object} Period
 * @property {number} start milliseconds
 * @property {number} end
 * @property {string} state
 * @property {boolean} would
 * @property {Transition | null} record that began it; null: it began before what is known
 */

/**
 * periods cuts a time into those of one state.
 * @param {Transition[]} records of the breaker, oldest first
 * @param {number} from
 * @param {number} to
 * @param {import('./types').Breaker} b
 * @param {number} known since when records are complete
 * @returns {Period[]}
 */
export function periods(records, from, to, b, known) {
  /** @type {Period[]} */
  const found = [];
  from = Math.max(from, known);
  if (records.length === 0 && b.last) records = [b.last]; // from before all that is known
  const add = (/** @type {number} */ start, /** @type {number} */ end, /** @type {string} */ state, /** @type {boolean} */ shadow, /** @type {Transition | null} */ record) => {
    if (end < from || start > to) return; // both may be of one millisecond
    found.push({ start: Math.max(start, from), end: Math.min(end, to), state, would: shadow && state !== 'closed', record });
  };
  const first = records[0];
  if (first) add(-Infinity, Date.parse(first.at), first.from, wasShadow(first, b), null);
  else add(-Infinity, to, b.state, b.mode === 'shadow', null);
  records.forEach((t, i) => {
    const start = Date.parse(t.at);
    const end = i + 1 < records.length ? Date.parse(records[i + 1].at) : to;
    const until = t.to === 'open' && t.until ? Date.parse(t.until) : Infinity;
    const shadow = t.mode === 'shadow';
    add(start, Math.min(end, until), t.to, shadow, t);
    if (until < end) add(until, end, 'half-open', shadow, null); // it waits for a call
  });
  return found;
}

/**
 * wasShadow is whether a breaker only judged before a record. A record has the
 * mode afterwards: what one has changed is told by what it has left.
 * @param {Transition} t
 * @param {import('./types').Breaker} b
 */
function wasShadow(t, b) {
  switch (t.cause) {
    case 'override':
      return b.override ? t.mode === 'enforce' : b.mode === 'shadow';
    case 'lift':
    case 'override-ended': // after a forced state it would be another one
      return t.from === t.to && t.mode !== 'shadow';
    default:
      return t.mode === 'shadow';
  }
}

/**
 * howOften says how often and how long a breaker was open, and would have been.
 * @param {Period[]} periods
 */
function howOften(periods) {
  if (periods.length === 0) return 'not known yet';
  const parts = [false, true].map((would) => {
    const is = (/** @type {Period | undefined} */ p) => p?.state === 'open' && p.would === would;
    const times = periods.filter((p, i) => is(p) && !is(periods[i - 1])).length;
    const all = periods.filter(is).reduce((sum, p) => sum + p.end - p.start, 0);
    return times > 0 && `${would ? 'would have been open' : 'open'} ${times === 1 ? 'once' : `${times} times`}, ${span(all / 1000)} in all`;
  });
  return parts.filter(Boolean).join('; ') || 'never open';
}

const tip = h('div', { class: 'tip', 'aria-hidden': 'true', hidden: true });

/**
 * hint shows a text at the pointer; '' hides it.
 * @param {string} text
 * @param {PointerEvent} [event]
 */
function hint(text, event) {
  if (!tip.isConnected) document.body.append(tip);
  tip.hidden = text === '';
  if (!event || !text) return;
  say(tip, text);
  const { width, height } = tip.getBoundingClientRect();
  const x = Math.max(8, Math.min(event.clientX + 12, innerWidth - width - 8));
  const y = event.clientY + 20 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 20;
  tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
}

const shape = /** @type {Record<string, { y: number, height: number }>} */ ({
  open: { y: 2, height: 20 },
  'half-open': { y: 7, height: 10 },
  closed: { y: 11, height: 2 },
});

/** Band is what state a breaker was in: open is high, half-open lower, closed a line. */
export class Band extends HTMLElement {
  constructor() {
    super();
    /** @type {Period[]} */
    this.periods = [];
    /** @type {import('./types').Mark[]} */
    this.marks = [];
    this.from = 0;
    this.to = 0;
    this.svg = s('svg', { viewBox: '0 0 1000 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    this.append(this.svg);
    set(this, 'role', 'img');
    this.addEventListener('pointermove', (event) => hint(this.at(event), event));
    this.addEventListener('pointerleave', () => hint(''));
  }

  /**
   * @param {Period[]} periods
   * @param {number} from
   * @param {number} to
   * @param {import('./types').Mark[]} marks
   */
  show(periods, from, to, marks) {
    this.periods = periods;
    this.marks = marks;
    this.from = from;
    this.to = to;
    const x = (/** @type {number} */ t) => ((t - from) / (to - from)) * 1000;
    this.svg.replaceChildren(
      ...periods.map((p) => s('rect', {
        class: `period ${p.state}${p.would ? ' would' : ''}`,
        x: x(p.start).toFixed(2), width: Math.max(x(p.end) - x(p.start), 1.5).toFixed(2), ...shape[p.state],
      })),
      ...marks.map(({ at }) => s('path', { class: 'mark', d: `M${x(at).toFixed(2)} 0V24` })),
    );
    const since = periods[0] && periods[0].start > from + 1000 ? `; not known before ${minute(new Date(periods[0].start))}` : '';
    set(this, 'aria-label', howOften(periods) + since);
  }

  /**
   * at says in words what was at the pointer.
   * @param {PointerEvent} event
   */
  at(event) {
    const { left, width } = this.getBoundingClientRect();
    const { from, to } = this;
    const t = from + ((event.clientX - left) / width) * (to - from);
    const near = ((to - from) / width) * 3; // a short period is hit from beside it
    const hits = this.periods.filter((p) => t >= p.start - near && t <= p.end + near);
    const marks = this.marks.filter((m) => Math.abs(m.at - t) <= near).map((m) => markText(m, to));
    return [...marks, periodText(hits.find((q) => q.state === 'open') ?? hits[0], to)].join('\n');
  }
}

/**
 * markText says what is marked.
 * @param {import('./types').Mark} m
 * @param {number} now
 */
export const markText = (m, now) => `${clock(new Date(m.at), now)}: ${m.text}`;

/**
 * @param {Period | undefined} p
 * @param {number} to
 */
function periodText(p, to) {
  if (!p) return 'not known';
  const lasting = `${p.would ? 'would be ' : ''}${p.state} for ${span((p.end - p.start) / 1000)}${p.end >= to ? ' so far' : ''}`;
  if (p.record) return `${sentence(p.record, to)}\n${lasting}`;
  return p.state === 'half-open' ? `open period over, waiting for a call\n${lasting}` : lasting;
}

/** Line is how often something happened over time. */
export class Line extends HTMLElement {
  constructor() {
    super();
    /** @type {import('./types').Point[]} */
    this.points = [];
    this.from = 0;
    this.to = 0;
    this.name = h('span', { class: 'line-name' });
    this.value = h('span', { class: 'line-now' });
    this.more = h('span', { class: 'line-more' });
    this.area = s('path', { class: 'area' });
    this.path = s('path', { class: 'stroke' });
    this.svg = s('svg', { viewBox: '0 0 1000 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('path', { class: 'base', d: 'M0 99H1000' }), this.area, this.path);
    this.append(this.name, this.svg, this.value, this.more);
    set(this, 'role', 'img');
    this.svg.addEventListener('pointermove', (event) => hint(this.at(event), event));
    this.svg.addEventListener('pointerleave', () => hint(''));
  }

  /**
   * @param {string} label
   * @param {import('./types').Point[]} points oldest first
   * @param {number} from milliseconds
   * @param {number} to
   * @param {string} kind of line
   * @param {string} more to be said
   */
  show(label, points, from, to, kind, more) {
    this.points = points;
    this.from = from;
    this.to = to;
    const seen = points.filter((p) => p.to > from);
    const top = Math.max(0, ...seen.map((p) => p.value));
    const now = seen[seen.length - 1];
    const x = (/** @type {number} */ t) => (Math.max(0, (t - from) / (to - from)) * 1000).toFixed(1);
    const y = (/** @type {number} */ v) => (97 - (v / (top || 1)) * 92).toFixed(1);
    const outline = seen.map((p) => `L${x(p.from)} ${y(p.value)}H${x(p.to)}`).join('');
    set(this.path, 'd', outline.replace('L', 'M'));
    set(this.area, 'd', now ? `M${x(seen[0].from)} 100${outline}V100Z` : '');
    const text = now ? perSecond(now.value) : '–';
    set(this, 'class', `${kind}${top === 0 ? ' flat' : ''}`);
    say(this.name, label);
    say(this.value, text);
    say(this.more, more);
    set(this, 'aria-label', `${label}: ${now ? `${text} now, at most ${perSecond(top)}` : 'not known yet'}${more ? `, ${more}` : ''}`);
  }

  /** @param {PointerEvent} event */
  at(event) {
    const { points, from, to } = this;
    const { left, width } = this.svg.getBoundingClientRect();
    const t = from + ((event.clientX - left) / width) * (to - from);
    const p = points.find((q) => t >= q.from && t < q.to);
    return p ? `${clock(new Date(t), to)}: ${perSecond(p.value)}` : 'not known';
  }
}

/** @typedef {import('./types').Bucket} Bucket */

/** Bars are the buckets of a window, the oldest first. */
export class Bars extends HTMLElement {
  /**
   * @param {string} label
   * @param {Bucket[]} buckets
   * @param {number} seconds of one; 0 with a window of calls
   * @param {number} top the most calls that a bar has room for
   */
  show(label, buckets, seconds, top) {
    set(this, 'role', 'img');
    const width = 1000 / Math.max(buckets.length, 1);
    const y = (/** @type {number} */ n) => (n / Math.max(top, 1)) * 96;
    const bar = (/** @type {string} */ kind, /** @type {number} */ i, /** @type {number} */ n, /** @type {number} */ below, /** @type {number} */ share) =>
      n > 0 && s('rect', {
        class: kind, x: (i * width + width * (1 - share) / 2).toFixed(2), width: (width * share).toFixed(2),
        y: (100 - y(below) - y(n)).toFixed(2), height: y(n).toFixed(2),
      });
    const svg = s('svg', { viewBox: '0 0 1000 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('path', { class: 'base', d: 'M0 99.5H1000' }),
      ...buckets.flatMap((b, i) => [
        bar('good', i, b.calls - b.failures, b.failures, 0.8),
        bar('bad', i, b.failures, 0, 0.8),
        bar('slow', i, b.slow, 0, 0.25),
      ]));
    svg.addEventListener('pointermove', (event) => {
      const { left, width } = svg.getBoundingClientRect();
      const b = buckets[Math.floor(((event.clientX - left) / width) * buckets.length)];
      hint(b ? bucketText(b) : '', event);
    });
    svg.addEventListener('pointerleave', () => hint(''));
    const sum = buckets.reduce((n, b) => ({ calls: n.calls + b.calls, failures: n.failures + b.failures, slow: n.slow + b.slow }), { calls: 0, failures: 0, slow: 0 });
    const size = seconds > 0 ? `${buckets.length} × ${exactly(seconds)}` : `${buckets.length} parts`;
    this.replaceChildren(h('div', { class: 'bars-head' }, h('b', {}, label), ' ', h('span', { class: 'muted' }, bucketText(sum))), svg, h('div', { class: 'bars-foot muted' }, h('span', {}, size), h('span', {}, 'latest')));
    set(this, 'aria-label', `${label}, ${buckets.length} buckets, oldest first: failures of calls ${buckets.map((b) => `${b.failures} of ${b.calls}`).join(', ')}`);
  }
}

/** @param {Bucket} b */
function bucketText(b) {
  return `${number(b.failures)} of ${number(b.calls)} failed${b.slow > 0 ? `, ${number(b.slow)} slow` : ''}`;
}

/** @param {import('./types').Rule} r */
const isRate = (r) => r.cause === 'failure-rate' || r.cause === 'slow-rate';

/**
 * near is how far a rule has come, from 0 to 1.
 * @param {import('./types').Rule} r
 */
export const near = (r) => (r.threshold > 0 ? Math.min(r.value / r.threshold, 1) : 0);

/**
 * ruleText is a rule in numbers: "38 % of 50 %".
 * @param {import('./types').Rule} r
 */
export function ruleText(r) {
  if (r.cause === 'trip-when') return 'decides by itself';
  return isRate(r) ? `${percent(r.value, r.threshold)} of ${percent(r.threshold)}` : `${number(r.value)} of ${number(r.threshold)}`;
}

/** Meter is how close a rule is to its threshold. */
export class Meter extends HTMLElement {
  constructor() {
    super();
    this.bar = s('rect', { class: 'filled', x: 0, y: 0, height: 8 });
    this.append(s('svg', { viewBox: '0 0 1000 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('rect', { class: 'track', x: 0, y: 0, width: 1000, height: 8 }), this.bar));
    set(this, 'role', 'meter');
  }

  /**
   * @param {import('./types').Rule} r
   * @param {number} calls in the window
   * @param {boolean} judged now
   */
  show(r, calls, judged) {
    const share = near(r);
    const part = isRate(r) && !r.enough ? `, ${number(calls)} of at least ${number(r.min_calls)} calls` : '';
    set(this.bar, 'width', (share * 1000).toFixed(1));
    set(this, 'class', !judged || !r.enough ? 'idle' : share >= 0.75 ? 'near' : '');
    set(this, 'aria-valuemin', 0);
    set(this, 'aria-valuemax', r.threshold);
    set(this, 'aria-valuenow', Math.min(r.value, r.threshold));
    set(this, 'aria-valuetext', ruleText(r) + part);
    set(this, 'aria-label', ruleName(r.cause));
  }
}

customElements.define('fb-band', Band);
customElements.define('fb-line', Line);
customElements.define('fb-bars', Bars);
customElements.define('fb-meter', Meter);
