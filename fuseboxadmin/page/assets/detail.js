// @ts-check

// One breaker: what the list says of it, and everything behind that.

import { actions, ask } from './actions.js';
import { auditList } from './audit.js';
import { Band, Bars, Line, Meter, periods, ruleText } from './charts.js';
import { h, renew, say, set } from './dom.js';
import { because, clock, day, minute, number, ruleName, seconds, sentence, span, some, time, countdown, verb } from './format.js';
import { report } from './api.js';
import { badge, next, tag } from './list.js';
import { settings, yaml } from './settings.js';
import { speak } from './speak.js';
import { isOverridden, look, totalCalls, totalRejected } from './look.js';

/** @typedef {import('./types').Detail} Details */
/** @typedef {import('./store').Store} Store */

/** Detail shows the breaker of the address. */
export class Detail extends HTMLElement {
  /**
   * @param {Store} store
   * @param {(text: string) => void} done is told of what was done
   */
  constructor(store, done) {
    super();
    this.store = store;
    this.done = done;
    /** @type {Map<Element, string>} what each part was built from */
    this.keys = new Map();
    this.name = '';
    this.drawn = ''; // the name
    this.range = 3600;
    this.status = h('div', { class: 'd-status' });
    this.lasting = h('span');
    this.away = h('span'); // how long it has not been closed
    this.titled = h('h2', { tabindex: -1 });
    this.override = h('div', { class: 'd-override' });
    this.note = h('span');
    this.left = h('span', { class: 'left' });
    const button = (/** @type {import('./actions').Action} */ what, label = what.label) => ({ what, element: h('button', { type: 'button', onclick: () => this.change(what) }, label) });
    this.changes = report ? [] : actions.map((what) => button(what));
    const lift = actions.find((what) => what.action === 'lift');
    this.override.append(this.note, this.left, ...(report || !lift ? [] : [button(lift, 'Undo').element]));
    this.buttons = h('div', { class: 'd-buttons', role: 'group', 'aria-label': 'Change this breaker' }, ...this.changes.map(({ element }) => element));
    this.band = new Band();
    this.axis = h('div', { class: 'd-axis muted', 'aria-hidden': 'true' });
    this.often = h('p', { class: 'muted' });
    this.records = h('div');
    this.why = h('p', { class: 'd-why' });
    this.earlier = h('p', { class: 'd-earlier' });
    this.then = new Bars();
    this.present = new Bars();
    this.empty = h('p', { class: 'muted' });
    this.rules = h('div', { class: 'd-rules' });
    this.cost = h('div', { class: 'd-cost' });
    this.costSince = h('p', { class: 'muted small' });
    this.again = h('p', { class: 'd-again' });
    this.attempt = h('p', { class: 'muted' });
    this.probes = h('div');
    this.audit = h('div');
    this.settings = h('div');
    const part = (/** @type {string} */ title, /** @type {Node[]} */ ...content) => {
      const id = `part-${title.toLowerCase().replace(/\W+/g, '-')}`;
      return h('section', { 'aria-labelledby': id }, h('h3', { id }, title), ...content);
    };
    this.missing = h('p', { class: 'empty', hidden: true });
    this.parts = h('div', { class: 'd-parts' },
      part('Since when, how often', this.band, this.axis, this.often, this.records),
      part('Why', this.why, this.earlier, h('div', { class: 'd-bars' }, this.then, this.present), this.empty),
      part('How close', this.rules),
      part('What it costs', this.cost, this.costSince),
      part('Next try', this.again, this.attempt, this.probes),
      part('Who did this', this.audit),
      part('Settings', this.settings));
    this.append(
      h('div', { class: 'd-head' },
        this.titled, h('a', { class: 'back', href: '#/', 'aria-label': 'Back to all breakers' }, '×'), this.status, this.override, this.buttons),
      this.missing, this.parts);
    set(this, 'role', 'region');
  }

  /**
   * build fills an element, but only when that from which it is built has changed.
   * @param {Element} element
   * @param {unknown} from
   * @param {() => (Node | string)[]} make
   */
  build(element, from, make) {
    const key = JSON.stringify(from);
    if (this.keys.get(element) === key) return;
    this.keys.set(element, key);
    renew(element, make(), this.titled);
  }

  /** forget empties what is of one breaker, before another one is shown. */
  forget() {
    for (const element of this.keys.keys()) element.replaceChildren();
    this.keys.clear();
    this.then.hidden = this.present.hidden = true;
    say(this.empty, '');
  }

  /**
   * hide takes an element away, or brings it back. If it has the focus, that goes to the title.
   * @param {HTMLElement} element
   * @param {boolean} hidden
   */
  hide(element, hidden) {
    const focused = !element.hidden && element.contains(document.activeElement);
    element.hidden = hidden;
    if (hidden && focused) this.titled.focus({ preventScroll: true });
  }

  /** draw shows what the store knows of the breaker now. */
  draw() {
    const { store, name } = this;
    const b = store.breakers.get(name);
    const d = store.details.get(name);
    if (this.drawn !== name) this.forget();
    this.drawn = name;
    say(this.titled, name || '(no name)');
    set(this, 'aria-label', `Breaker ${name}`);
    this.missing.hidden = b !== undefined;
    this.parts.hidden = b === undefined;
    for (const element of [this.status, this.override, this.buttons]) element.hidden = b === undefined;
    if (!b) {
      say(this.missing, `There is no breaker ${JSON.stringify(name)} now. It may have been removed, or the address be misspelt.`);
      return;
    }
    const now = store.now();
    const l = look(b, now);
    const today = day(new Date(now));
    const left = leftClosed(b, d?.history ?? [], store.records(name));
    this.build(this.status, [l, tag(b), b.since, left, today], () => [
      badge(l), ...(tag(b) ? [h('span', { class: 'tag' }, tag(b))] : []),
      h('span', { class: 'muted' }, 'since ', time(b.since, now), ', ', this.lasting, ...(left ? ['; not closed since ', time(left, now), ', ', this.away] : [])),
    ]);
    const lasting = (/** @type {string} */ since) => span(Math.max(0, now - Date.parse(since)) / 1000);
    say(this.lasting, lasting(b.since));
    say(this.away, left ? lasting(left) : '');
    this.drawOverride(b, now);
    const overridden = isOverridden(b, now);
    for (const { what, element } of this.changes) {
      set(element, 'aria-current', overridden && what.mode === b.mode ? 'true' : null);
      if (what.action === 'lift') this.hide(element, !overridden);
    }
    const from = now - this.range * 1000;
    this.band.show(periods(store.records(name), from, now, b, store.known), from, now, store.marks(from, name));
    this.build(this.axis, [minute(new Date(from)), minute(new Date(now))], () => [h('span', {}, minute(new Date(from))), h('span', {}, minute(new Date((from + now) / 2))), h('span', {}, 'now')]);
    say(this.often, `In the last ${span(this.range)}: ${this.band.getAttribute('aria-label')}.`);
    const told = (/** @type {import('./types').Transition} */ t) => [`${verb(t)} `, time(t.at, now), because(t)];
    this.build(this.why, [today, b.last], () => (b.last ? told(b.last) : ['Nothing has happened to it yet.']));
    const trip = d?.trip && sentence(d.trip, now) !== this.why.textContent ? d.trip : null;
    this.build(this.earlier, [today, trip], () => (trip ? ['Before that, it ', ...told(trip)] : []));
    this.drawRules(b);
    this.drawNext(b, l, now, d);
    this.drawCost(b, now);
    const history = d?.history ?? store.records(name);
    this.build(this.records, [today, history], () => recordList(history, now));
    const audits = store.audits.filter((r) => r.name === name);
    this.build(this.audit, [today, audits, store.known, store.range], () => auditList(audits, store, now));
    if (d) this.drawDetail(d, now);
    else if (report) this.drawMissing();
  }

  /**
   * change asks for a change of this breaker.
   * @param {import('./actions').Action} what
   */
  change(what) {
    const b = this.store.breakers.get(this.name);
    if (!b) return;
    ask(b, what, (text) => {
      this.done(text);
      if (!this.contains(document.activeElement)) this.titled.focus({ preventScroll: true }); // the button has gone meanwhile
    });
  }

  /**
   * @param {import('./types').Breaker} b
   * @param {number} now
   */
  drawOverride(b, now) {
    const { note } = b;
    const left = note?.until ? `${countdown((Date.parse(note.until) - now) / 1000)} left` : 'until it is lifted';
    this.hide(this.override, !isOverridden(b, now));
    say(this.note, [`Set to ${b.mode}${note?.by ? ` by ${note.by}` : ''}`, note?.reason].filter(Boolean).join(': '));
    say(this.left, left);
  }

  /**
   * @param {import('./types').Breaker} b
   * @param {import('./look').Look} l
   * @param {number} now
   * @param {Details | undefined} d
   */
  drawNext(b, l, now, d) {
    const when = next(b, l, now);
    const text = {
      closed: 'It is closed: calls pass.',
      'half-open': b.outstanding > 0 ? `Probing now: ${some(b.outstanding, 'probe')} out.` : 'It probes with the next call.',
      open: b.until ? `It tries again ${when}.` : 'It stays open until somebody lifts it.',
    }[l.state];
    say(this.again, text);
    const attempt = d?.period_number && l.state !== 'closed' ? `This is open period ${d.period_number} in a row.` : '';
    const after = d?.next_period && (l.state === 'half-open' || b.until) ? ` If the probes fail, the next one is ${span(seconds(d?.next_period))}.` : '';
    say(this.attempt, `${attempt}${after}`.trim());
  }

  /**
   * @param {Details} d
   * @param {number} now
   */
  drawDetail(d, now) {
    const tops = [...d.trip_window, ...d.window].map((b) => b.calls);
    const top = Math.max(1, ...tops);
    const width = d.config.window_calls > 0 ? 0 : seconds(d.config.window) / d.config.buckets;
    this.then.hidden = d.trip_window.length === 0;
    this.then.show('At the trip', d.trip_window, width, top);
    this.present.hidden = d.window.length === 0;
    this.present.show('Now', d.window, width, top);
    say(this.empty, d.window.length > 0 ? '' : d.state === 'half-open' ? `Now: ${d.passed} of ${some(d.config.close_after, 'probe')} passed, ${d.failed} of ${d.config.reopen_after} failed.` : d.state === 'open' && d.mode === 'shadow' ? 'Now: calls are admitted, and none are judged.' : d.state === 'open' ? 'Now: no calls are admitted, and none are counted.' : 'Now: no calls in the window.');
    this.build(this.probes, [day(new Date(now)), d.probes], () => probeTable(d, now));
    this.build(this.settings, [d.config, d.defaults, this.store.config], () => this.settingsTable(d));
  }

  /** drawMissing says what a report does not have of a breaker. */
  drawMissing() {
    say(this.empty, 'The calls of its window are not in this report.');
    this.build(this.probes, null, () => [h('p', { class: 'muted' }, 'Its probes are not in this report.')]);
    this.build(this.settings, null, () => [h('p', { class: 'muted' }, 'Its settings are not in this report.')]);
  }

  /** @param {import('./types').Breaker} b */
  drawRules(b) {
    const rules = b.rules;
    const idle = `Not judged now: it is ${b.state}${b.override || b.mode === 'off' ? `, set to ${b.mode}` : ''}.`;
    this.build(this.rules, [rules.map((r) => r.cause), b.judged, idle], () => [
      ...rules.map((r) => h('div', { class: 'rule' },
        h('span', { class: 'rule-name', 'aria-hidden': 'true' }, ruleName(r.cause)), new Meter(),
        h('span', { class: 'rule-text', 'aria-hidden': 'true' }), h('span', { class: 'rule-more muted' }))),
      ...(rules.length === 0 ? [h('p', { class: 'muted' }, 'No rule is on: it only counts.')] : []),
      ...(rules.length > 0 && !b.judged ? [h('p', { class: 'muted' }, idle)] : []),
    ]);
    rules.forEach((r, i) => {
      const element = this.rules.children[i];
      const meter = element.querySelector('fb-meter');
      if (meter instanceof Meter) meter.show(r, b.counts.calls, b.judged);
      say(/** @type {Element} */ (element.querySelector('.rule-text')), ruleText(r));
      const needs = r.min_calls > 0 ? `${number(b.counts.calls)} of at least ${some(r.min_calls, 'call')}` : '';
      const more = b.judged && r.calls_to_trip ? `trips after ${some(r.calls_to_trip, r.cause === 'slow-rate' ? 'more slow call' : 'more failure')}` : '';
      say(/** @type {Element} */ (element.querySelector('.rule-more')), [needs, more].filter(Boolean).join(', '));
    });
  }

  /**
   * @param {import('./types').Breaker} b
   * @param {number} now
   */
  drawCost(b, now) {
    const t = b.totals;
    const shadow = b.mode === 'shadow' || t.would_reject.successes + t.would_reject.failures > 0;
    const lines = /** @type {[string, string, (t: import('./types').Totals) => number][]} */ ([
      ['Calls', '', totalCalls],
      ['Failures', 'bad-line', (t) => t.failures + t.would_reject.failures],
      ['Slow calls', '', (t) => t.slow],
      ['Rejected', 'bad-line', totalRejected],
      ...(t.fallbacks === undefined ? [] : [['Fallbacks', '', (/** @type {import('./types').Totals} */ t) => t.fallbacks ?? 0]]),
      ...(shadow ? [
        ['Would reject, good', '', (/** @type {import('./types').Totals} */ t) => t.would_reject.successes],
        ['Would reject, bad', '', (/** @type {import('./types').Totals} */ t) => t.would_reject.failures],
      ] : []),
    ]);
    const { seen } = this.store;
    if (this.cost.childElementCount !== lines.length) this.cost.replaceChildren(...lines.map(() => new Line()));
    const from = Math.max(seen[0]?.at ?? now, now - 900_000);
    lines.forEach(([label, kind, count], i) => {
      const line = this.cost.children[i];
      if (line instanceof Line) line.show(label, this.store.points(count), Math.min(from, now - 60_000), now, kind, `${number(count(t))} in all`);
    });
    say(this.costSince, report ? 'Counted since the breaker was made.' : from > now - 900_000 ? `A second, since ${clock(new Date(from), now)}, when you opened it here.` : 'A second, in the last 15 min.');
  }

  /** @param {Details} d */
  settingsTable(d) {
    const list = settings(d.config, d.name, this.store.config, d.defaults);
    const copied = h('span', { class: 'muted', role: 'status' });
    const copy = h('button', {
      type: 'button',
      onclick: async () => {
        const text = yaml(d.name, list);
        try {
          await navigator.clipboard.writeText(text);
          speak(copied, 'Copied.');
        } catch {
          shown.hidden = false; // no clipboard without https: copy by hand
          say(copied, 'Select and copy:');
        }
      },
    }, 'Copy as YAML');
    const shown = h('pre', { hidden: true, tabindex: 0, 'aria-label': 'Settings as YAML' }, yaml(d.name, list));
    return [
      h('table', { 'aria-label': 'Settings' },
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Setting'), h('th', { scope: 'col' }, 'Value'), h('th', { scope: 'col' }, 'From'))),
        h('tbody', {}, ...list.map((s) => h('tr', {}, h('th', { scope: 'row' }, s.key), h('td', {}, s.value), h('td', { class: 'muted' }, s.origin))))),
      h('div', { class: 'copy' }, copy, copied), shown,
    ];
  }
}

/**
 * leftClosed is when a breaker was closed last, if that is known, and longer ago than its present state began: one
 * that probes in vain enters that anew every few seconds.
 * @param {import('./types').Breaker} b
 * @param {import('./types').Transition[][]} known lists of its records, oldest first
 */
function leftClosed(b, ...known) {
  if (b.state === 'closed') return '';
  for (const records of known) {
    const left = [...records].reverse().find((t) => t.from === 'closed' || t.to === 'closed');
    if (left && left.to !== 'closed') return Date.parse(b.since) - Date.parse(left.at) >= 1000 ? left.at : '';
  }
  return '';
}

/**
 * @param {import('./types').Transition[]} records oldest first
 * @param {number} now
 */
function recordList(records, now) {
  const items = [...records].reverse().map((t) => h('li', {}, time(t.at, now), h('span', {}, `${verb(t)}${because(t)}`)));
  const few = 3;
  const first = h('ul', { class: 'records' }, ...items.slice(0, few));
  if (items.length <= few) return [first];
  return [first, h('details', {}, h('summary', {}, `${items.length - few} earlier records`), h('ul', { class: 'records' }, ...items.slice(few)))];
}

/**
 * @param {Details} d
 * @param {number} now
 */
function probeTable(d, now) {
  if (d.probes.length === 0) return [];
  return [h('table', {},
    h('caption', {}, 'Last probes'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Began'), h('th', { scope: 'col' }, 'Took'), h('th', { scope: 'col' }, 'Verdict'))),
    h('tbody', {}, ...[...d.probes].reverse().slice(0, 8).map((p) => h('tr', {},
      h('td', {}, time(p.at, now)), h('td', {}, span(seconds(p.duration))), h('td', { class: `verdict ${p.result}` }, p.slow ? 'too slow' : p.result)))))];
}

customElements.define('fb-detail', Detail);
