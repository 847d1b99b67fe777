// @ts-check

// The list. Rows have one height, and only those that can be seen are there.

import { Band, Meter, markText, near, periods, ruleText } from './charts.js';
import { h, icon, say, set } from './dom.js';
import { because, countdown, day, minute, perSecond, time, verb } from './format.js';
import { totalCalls, totalRejected } from './look.js';

/** @typedef {import('./types').Breaker} Breaker */
/** @typedef {import('./look').Look} Look */
/** @typedef {import('./store').Store} Store */

const beyond = 4; // rows that are kept above and below what can be seen

/** @param {string} name */
export const link = (name) => `#/breaker/${encodeURIComponent(name)}`;

/**
 * badge is a state as a shape and a word.
 * @param {Look} l
 */
export function badge(l) {
  const words = l.would ? `would be ${l.state}` : l.forced ? `forced ${l.state}` : l.state;
  return h('span', { class: `state ${l.state}${l.would ? ' would' : ''}` }, icon(l.state), h('span', {}, words));
}

/**
 * tag says in which mode a breaker is, if that is not the usual one, and the badge does not say it.
 * @param {Breaker} b
 */
export const tag = (b) => ({ shadow: 'shadow', off: 'off', enforce: b.override ? 'enforce, by hand' : '' }[/** @type {string} */ (b.mode)] ?? '');

/**
 * closest is the rule that is nearest to tripping.
 * @param {Breaker} b
 */
function closest(b) {
  if (!b.judged) return null;
  return [...b.rules].sort((x, y) => Number(y.enough) - Number(x.enough) || near(y) - near(x))[0] ?? null;
}

/**
 * next says when an open breaker tries again.
 * @param {Breaker} b
 * @param {Look} l
 * @param {number} now
 */
export function next(b, l, now) {
  if (l.state === 'closed') return '';
  if (l.state === 'half-open') return b.outstanding > 0 ? 'probing' : 'next call';
  return b.until ? `in ${countdown((Date.parse(b.until) - now) / 1000)}` : 'when lifted';
}

/** Row shows one breaker. */
class Row {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.state = h('div', { role: 'cell', class: 'c-state' });
    this.link = h('a', { href: link(name), tabindex: -1, title: name || null }, name || '(no name)'); // it may be cut off
    this.tag = h('span', { class: 'tag' });
    this.why = h('div', { role: 'cell', class: 'c-why' });
    this.band = new Band();
    this.meter = new Meter();
    this.close = h('span', { class: 'close-text', 'aria-hidden': 'true' });
    this.closeCell = h('div', { role: 'cell', class: 'c-close' }, this.close, this.meter);
    this.calls = h('div', { role: 'cell', class: 'c-calls' });
    this.rejected = h('div', { role: 'cell', class: 'c-rejected' });
    this.next = h('div', { role: 'cell', class: 'c-next' });
    this.element = h('div', { role: 'row', class: 'row' },
      this.state,
      h('div', { role: 'cell', class: 'c-name' }, this.link, this.tag),
      this.why,
      h('div', { role: 'cell', class: 'c-band' }, this.band),
      this.closeCell, this.calls, this.rejected, this.next);
    this.drawn = '';
    this.told = ''; // of the last record
    this.bandDrawn = '';
  }

  /**
   * @param {Store} store
   * @param {Breaker} b
   * @param {Look} l
   * @param {number} from
   * @param {number} now
   */
  show(store, b, l, from, now) {
    const key = `${l.state} ${l.would} ${l.forced}`;
    if (this.drawn !== key) {
      this.drawn = key;
      this.state.replaceChildren(badge(l));
      set(this.element, 'class', `row ${l.state}${l.would ? ' would' : ''}`);
    }
    const mode = l.would ? '' : tag(b);
    say(this.tag, mode);
    this.tag.hidden = mode === '';
    const last = b.last;
    const told = `${last?.at} ${last?.cause} ${key} ${day(new Date(now))}`;
    if (this.told !== told) {
      this.told = told;
      this.why.replaceChildren(...(last ? [`${verb(last)} `, time(last.at, now), because(last)] : []));
      set(this.why, 'title', this.why.textContent);
    }
    // A band moves on when that can be seen, and changes at once.
    const records = store.records(b.name);
    const marks = store.marks(from, b.name);
    const drawn = [Math.floor(now / ((now - from) / 1000)), from - now, store.known, records.length, marks.length, key, b.last?.at].join();
    if (this.bandDrawn !== drawn) {
      this.bandDrawn = drawn;
      this.band.show(periods(records, from, now, b, store.known), from, now, marks);
    }
    const rule = closest(b);
    this.closeCell.classList.toggle('none', !rule);
    this.meter.hidden = !rule;
    say(this.close, rule ? ruleText(rule) : '');
    if (rule) this.meter.show(rule, b.counts.calls, true);
    rate(this.calls, store.rate(b.name, totalCalls), 'calls');
    rate(this.rejected, store.rate(b.name, totalRejected), 'rejected');
    say(this.next, next(b, l, now));
  }
}

/**
 * @param {Element} cell
 * @param {number | null} value
 * @param {string} what
 */
function rate(cell, value, what) {
  say(cell, value === null ? '' : perSecond(value));
  cell.classList.toggle('zero', value === 0);
  set(cell, 'aria-label', value === null ? `${what} not known yet` : `${perSecond(value)} ${what}`);
}

const columns = [
  ['c-state', 'State'], ['c-name', 'Breaker'], ['c-why', 'Last change'], ['c-band', ''],
  ['c-close', 'Closest rule'], ['c-calls', 'Calls'], ['c-rejected', 'Rejected'], ['c-next', 'Next try'],
];

/** List draws the rows of what store.sorted has found. */
export class List extends HTMLElement {
  /** @param {Store} store */
  constructor(store) {
    super();
    this.store = store;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {{ b: Breaker, l: Look }[]} */
    this.found = [];
    this.current = ''; // the row that the keyboard is at
    /** @type {string | null} */
    this.selected = null;
    this.range = 3600; // seconds
    this.drawn = ''; // the axis
    this.axis = h('div', { class: 'axis', 'aria-hidden': 'true' });
    this.room = 40; // how wide the axis is, in characters or so
    this.head = h('div', { role: 'row', class: 'row head', 'aria-rowindex': 1 },
      ...columns.map(([kind, name]) => h('div', { role: 'columnheader', class: kind }, kind === 'c-band' ? this.axis : name)));
    set(this.head.querySelector('.c-band') ?? this.head, 'aria-label', 'Time line');
    this.sizer = h('div', { class: 'sizer', role: 'rowgroup' });
    this.empty = h('p', { class: 'empty', hidden: true });
    // A row has the height of this one, whatever size the reader has chosen for text.
    this.ruler = h('div', { class: 'row ruler', 'aria-hidden': 'true' },
      ...columns.map(([kind]) => h('div', { class: kind }, h('span', { class: 'tag' }, '0'))));
    this.height = 0;
    this.scroller = h('div', { class: 'scroller', role: 'presentation' }, this.ruler, this.sizer, this.empty);
    set(this, 'role', 'table');
    set(this, 'aria-label', 'Breakers');
    this.append(this.head, this.scroller);
    this.scroller.addEventListener('scroll', () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    new ResizeObserver(() => this.measure()).observe(this.ruler);
    new ResizeObserver(() => {
      this.room = this.axis.clientWidth / (this.axis.clientHeight || Infinity) * 1.4;
      this.draw();
    }).observe(this.axis);
    this.addEventListener('keydown', (event) => this.key(event));
    this.addEventListener('focusin', (event) => {
      const row = this.rowOf(event.target);
      if (row) this.current = row.name;
    });
    this.sizer.addEventListener('click', (event) => {
      const row = this.rowOf(event.target);
      if (row && !getSelection()?.toString() && !(event.target instanceof HTMLAnchorElement)) row.link.click();
    });
  }

  /** @param {EventTarget | null} target */
  rowOf(target) {
    const element = target instanceof Element && target.closest('.row');
    return [...this.rows.values()].find((r) => r.element === element);
  }

  /**
   * show takes over what is to be shown.
   * @param {{ b: Breaker, l: Look }[]} found
   * @param {string} empty what to say if there is none
   */
  show(found, empty) {
    this.found = found;
    set(this, 'aria-rowcount', found.length + 1);
    say(this.empty, empty);
    this.empty.hidden = found.length > 0;
    this.draw();
  }

  /** measure takes over how high a row is, and keeps the place in the list. */
  measure() {
    const { height } = this.ruler.getBoundingClientRect();
    if (height === 0 || height === this.height) return; // 0: the list is not shown
    const at = this.height && this.scroller.scrollTop / this.height;
    this.height = height;
    this.sizer.style.setProperty('--height', `${height}px`);
    this.draw();
    this.scroller.scrollTop = at * height;
  }

  /** draw makes the rows that can be seen. */
  draw() {
    if (this.height === 0) this.measure();
    const { store, found, rows, sizer, scroller, height } = this;
    if (height === 0) return;
    sizer.style.height = `${found.length * height}px`;
    const first = Math.min(found.length, Math.max(0, Math.floor(scroller.scrollTop / height) - beyond));
    const end = Math.min(found.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / height) + beyond);
    const now = store.now();
    const from = now - this.range * 1000;
    this.ticks(from, now);
    /** @type {Set<string>} */
    const seen = new Set();
    const focused = this.rowOf(document.activeElement)?.name;
    const wanted = Array.from({ length: end - first }, (_, i) => first + i);
    const away = focused === undefined ? -1 : found.findIndex(({ b }) => b.name === focused);
    if (away >= 0 && away < first) wanted.unshift(away);
    if (away >= end) wanted.push(away);
    for (const i of wanted) {
      const { b, l } = found[i];
      seen.add(b.name);
      let row = rows.get(b.name);
      if (!row) {
        row = new Row(b.name);
        rows.set(b.name, row);
        sizer.append(row.element);
      }
      set(row.element, 'aria-rowindex', i + 2);
      row.element.style.transform = `translateY(${i * height}px)`;
      row.element.classList.toggle('selected', b.name === this.selected);
      set(row.link, 'aria-current', b.name === this.selected ? 'true' : null);
      row.show(store, b, l, from, now);
    }
    for (const [name, row] of rows) {
      if (seen.has(name)) continue;
      row.element.remove();
      rows.delete(name);
    }
    this.order(seen);
    const at = rows.has(this.current) ? this.current : (found[Math.max(first, 0)]?.b.name ?? '');
    for (const [name, row] of rows) set(row.link, 'tabindex', name === at ? 0 : -1);
    store.watch([...seen]);
  }

  /**
   * order puts the rows into the order in which they are seen: a screen reader goes by that.
   * @param {Set<string>} names
   */
  order(names) {
    const focused = document.activeElement;
    let at = this.sizer.firstElementChild;
    for (const name of names) {
      const element = this.rows.get(name)?.element;
      if (element === at) at = at?.nextElementSibling ?? null;
      else if (element) this.sizer.insertBefore(element, at);
    }
    if (focused instanceof HTMLElement && this.sizer.contains(focused) && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  /**
   * ticks writes the time axis, and the marks on it.
   * @param {number} from
   * @param {number} now
   */
  ticks(from, now) {
    const parts = this.range === 900 ? 3 : this.range === 3600 ? 4 : 6;
    const every = this.range / (this.room < parts * 4 ? parts / (parts % 2 ? 3 : 2) : parts);
    const ticks = [];
    const zone = new Date(now).getTimezoneOffset() * 60;
    for (let t = Math.ceil((from / 1000 - zone) / every) * every + zone; t * 1000 < now; t += every) {
      const share = (t * 1000 - from) / (now - from);
      if (share * this.room > 1.6 && (1 - share) * this.room > 4.5) ticks.push({ share, text: minute(new Date(t * 1000)), kind: 'tick', title: '' });
    }
    for (const m of this.store.marks(from)) ticks.push({ share: (m.at - from) / (now - from), text: '', kind: 'marked', title: markText(m, now) });
    const key = ticks.map((t) => `${t.text}${t.title}${t.share.toFixed(3)}`).join();
    if (this.drawn === key) return;
    this.drawn = key;
    this.axis.replaceChildren(...ticks.map(({ share, text, kind, title }) => {
      const tick = h('span', { class: kind, title: title || null }, text);
      tick.style.left = `${(share * 100).toFixed(2)}%`;
      return tick;
    }), h('span', { class: 'now' }, 'now'));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const at = this.found.findIndex(({ b }) => b.name === this.current);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / (this.height || Infinity)) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.found.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.go(Math.max(0, Math.min(this.found.length - 1, to)));
  }

  /** focusCurrent moves the keyboard to the row where it was. */
  focusCurrent() {
    this.go(Math.max(0, this.found.findIndex(({ b }) => b.name === this.current)));
  }

  /**
   * go moves the keyboard to a row.
   * @param {number} i
   */
  go(i) {
    const name = this.found[i]?.b.name;
    if (name === undefined) return;
    const { height, scroller: { scrollTop, clientHeight } } = this;
    if (i * height < scrollTop) this.scroller.scrollTop = i * height;
    else if ((i + 1) * height > scrollTop + clientHeight) this.scroller.scrollTop = (i + 1) * height - clientHeight;
    this.current = name;
    this.draw();
    this.rows.get(name)?.link.focus({ preventScroll: true });
  }
}

customElements.define('fb-list', List);
