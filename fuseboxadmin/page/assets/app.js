// @ts-check

// The page as a whole: what the address says is shown, and the head answers
// whether anything is open.

import { report } from './api.js';
import { auditList } from './audit.js';
import { Detail } from './detail.js';
import { h, icon, renew, say, set } from './dom.js';
import { clock, day, number, reason, some, span, utc } from './format.js';
import { List, link } from './list.js';
import { Overview } from './overview.js';
import { filters } from './look.js';
import { speak } from './speak.js';
import { Store } from './store.js';

/**
 * the finds an element of the page.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
function the(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new TypeError(`the page has no ${id}`);
  return element;
}

const store = new Store();
const overview = new Overview();
const list = new List(store);
const detail = new Detail(store, done);
const audits = h('section', { 'aria-label': 'Audit' });
const changesTitle = h('h2', { id: 'changes-title', tabindex: -1 }, 'Changes');
const changes = h('section', { id: 'changes', hidden: true, 'aria-labelledby': 'changes-title' },
  h('div', { class: 'd-head' }, changesTitle, h('a', { class: 'back', href: '#/', 'aria-label': 'Back to all breakers' }, '×')),
  h('div', { class: 'd-parts' }, audits));
set(list, 'id', 'list');
set(list, 'tabindex', -1);
set(detail, 'id', 'detail');
detail.hidden = true;
the('main', HTMLElement).append(overview, list, detail, changes);
const answer = the('answer', HTMLElement);
const search = the('search', HTMLInputElement);
const favicon = document.querySelector('link[rel=icon]');

/** @type {Set<string>} */
const chosen = new Set();

/** @type {Record<string, { one: string, shape: string }>} */
const kinds = {
  open: { one: 'open', shape: 'open' },
  'half-open': { one: 'half-open', shape: 'half-open' },
  forced: { one: 'forced', shape: 'forced' },
  would: { one: 'would be open', shape: 'open' },
  closed: { one: 'closed', shape: 'closed' },
};

const chips = Object.fromEntries(Object.keys(filters).map((key) => {
  const count = h('b', {}, '0');
  const chip = h('button', {
    type: 'button', class: `chip ${key}`, 'aria-pressed': 'false',
    onclick: () => {
      if (!chosen.delete(key)) chosen.add(key);
      set(chip, 'aria-pressed', String(chosen.has(key)));
      draw();
    },
  }, icon(kinds[key].shape), count, ` ${kinds[key].one}`);
  return [key, { chip, count }];
}));
the('filters', HTMLElement).append(...Object.values(chips).map(({ chip }) => chip));

const ranges = [900, 3600, 21600].map((range) => h('button', {
  type: 'button', 'aria-pressed': String(range === list.range), 'data-range': range,
  onclick: () => choose(range),
}, span(range)));
the('ranges', HTMLElement).append(...ranges);

/** @param {number} range seconds of the time axis */
function choose(range) {
  list.range = detail.range = range;
  for (const button of ranges) set(button, 'aria-pressed', String(button.dataset.range === String(range)));
  void store.show(range);
  draw();
}

/** route shows what the address says. */
function route() {
  const [, kind, name] = location.hash.match(/^#\/(\w+)(?:\/(.*))?$/) ?? [];
  const before = detail.name;
  let selected = null;
  try {
    if (kind === 'breaker') selected = decodeURIComponent(name ?? '');
  } catch {
    selected = name; // not escaped as it should be: there is no such breaker
  }
  const opened = selected !== null && (detail.hidden || before !== selected);
  detail.hidden = selected === null;
  const inside = changes.contains(document.activeElement);
  const asked = changes.hidden && kind === 'changes';
  changes.hidden = kind !== 'changes';
  set(the('changes-link', HTMLElement), 'aria-current', kind === 'changes' ? 'page' : null);
  set(document.body, 'data-view', selected !== null ? 'detail' : kind === 'changes' ? 'changes' : 'list');
  list.selected = selected;
  detail.name = selected ?? '';
  void store.select(selected);
  draw();
  if (opened && selected !== null) {
    detail.scrollTop = 0;
    detail.titled.focus({ preventScroll: true });
  } else if (asked) changesTitle.focus({ preventScroll: true });
  else if (selected === null && (before || inside) && kind !== 'changes') list.focusCurrent();
}

let planned = false;

/** draw shows the present state, once for all that happens before it. */
function draw() {
  if (planned) return;
  planned = true;
  // A tab that is not seen draws no frames, but its title has to be true.
  if (document.hidden) setTimeout(drawNow);
  else requestAnimationFrame(drawNow);
}

function drawNow() {
  planned = false;
  if (!store.ready) return;
  const counts = store.counts();
  head(counts);
  const found = store.sorted(search.value, chosen);
  const all = store.breakers.size;
  list.show(found, all === 0 ? 'There are no breakers yet. One shows up here when the program has made it.' : `None of ${some(all, 'breaker')} matches.`);
  overview.show(store, store.range);
  if (!detail.hidden) detail.draw();
  if (!changes.hidden) drawChanges();
}

/** @param {Record<string, number>} counts */
function head(counts) {
  for (const key in chips) {
    say(chips[key].count, number(counts[key]));
    chips[key].chip.hidden = counts[key] === 0 && !chosen.has(key) && (key === 'forced' || key === 'would');
    chips[key].chip.classList.toggle('none', counts[key] === 0);
  }
  const lost = store.status === 'lost';
  const worst = counts.open > 0 ? 'open' : counts['half-open'] > 0 ? 'half-open' : 'closed';
  say(answer, counts.open > 0 ? `${some(counts.open, 'breaker')} open` : counts['half-open'] > 0 ? `Nothing open, ${number(counts['half-open'])} half-open` : 'Nothing is open');
  set(answer, 'class', worst);
  const short = worst === 'closed' ? '' : `${counts[worst]} ${worst} · `;
  const title = `${lost ? 'connection lost · ' : ''}${short}Fusebox${report ? ' report' : ''}`;
  if (document.title !== title) document.title = title;
  if (favicon && !report) set(favicon, 'href', `${worst}.svg`);
}

/** status says whether the page is up to date. */
function status() {
  const element = the('status', HTMLElement);
  const lost = the('lost', HTMLElement);
  const now = store.now();
  if (report) {
    const date = new Date(now);
    say(element, `Report of ${day(date)}, ${clock(date, now)}`);
    set(element, 'title', utc(date));
    set(element, 'class', 'report');
    return;
  }
  say(element, { connecting: 'Connecting', live: 'Live', lost: 'Connection lost' }[store.status]);
  set(element, 'class', store.status);
  lost.hidden = store.status !== 'lost';
  set(lost, 'title', store.contact > 0 && utc(new Date(store.contact)));
  const why = store.error || store.why;
  if (store.status !== 'lost') say(lost, '');
  else if (store.contact === 0) say(lost, `No connection: ${why || 'the server does not answer'}. Trying again.`);
  else say(lost, `Connection lost, showing data from ${clock(new Date(store.contact), now)}.${why ? ` The server says: ${why}.` : ''} Trying again.`);
  document.body.classList.toggle('stale', store.status === 'lost');
}

/** @type {unknown[]} what the list of changes was drawn from */
let drawn = [];

function drawChanges() {
  // Times of yesterday are shown with their day, so at midnight they are drawn anew.
  const from = [store.audits, day(new Date(store.now())), store.known, store.range];
  if (from.every((value, i) => value === drawn[i])) return;
  drawn = from;
  renew(audits, auditList(store.audits, store, store.now(), link), changesTitle);
}

// A reader is told of breakers that open, at most once in a few seconds.

/** @type {import('./types').Transition[]} */
let openings = [];
const quiet = 4000; // milliseconds

store.addEventListener('opening', (event) => {
  openings.push(/** @type {CustomEvent} */ (event).detail);
  if (openings.length > 1) return;
  setTimeout(announce, 200);
});

let announced = 0;

function announce() {
  const wait = announced + quiet - Date.now();
  if (wait > 0) {
    setTimeout(announce, wait);
    return;
  }
  announced = Date.now();
  const names = [...new Set(openings.map((t) => t.name))];
  const text = names.length === 1 ? `${names[0]} is open: ${reason(openings[0])}` : `${names.length} breakers are open: ${names.slice(0, 3).join(', ')}${names.length > 3 ? ' and others' : ''}`;
  openings = [];
  speak(the('announce', HTMLElement), text);
}

/** @param {string} text of what was done */
function done(text) {
  const note = the('note', HTMLElement);
  say(note, text);
  note.hidden = false;
  clearTimeout(noted);
  noted = setTimeout(() => {
    note.hidden = true;
  }, 8000);
  speak(the('told', HTMLElement), text);
}

let noted = 0; // the timer that takes the note away

addEventListener('keydown', (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (document.querySelector('dialog[open]')) return;
  if (event.key === '/' && !typing) {
    event.preventDefault();
    search.select();
    search.focus();
  } else if (event.key === 'Escape') {
    if (event.target === search && search.value) {
      search.value = '';
      draw();
    } else if (location.hash !== '#/' && location.hash !== '') location.hash = '#/';
    else list.focusCurrent();
  } else if (event.key === 'ArrowDown' && event.target === search) {
    event.preventDefault();
    list.go(0);
  }
});

search.addEventListener('input', draw);
addEventListener('hashchange', route);
document.addEventListener('visibilitychange', draw);
store.addEventListener('change', draw);
store.addEventListener('status', () => {
  status();
  draw();
});

status();
route();
await store.start();
status();
draw();
if (!report) setInterval(() => {
  status();
  draw();
}, 1000);
