// @ts-check

// Who has changed what, or tried to.

import { report } from './api.js';
import { h } from './dom.js';
import { number, seconds, span, time } from './format.js';

/** @typedef {import('./types').AuditRecord} AuditRecord */

const most = 500; // rows
const longest = 6 * 3600; // seconds of the time axis

/**
 * auditList shows records, the newest first.
 * @param {AuditRecord[]} records
 * @param {{ known: number, range: number }} store of them: since when they are complete, and how long the time axis is
 * @param {number} now
 * @param {(name: string) => string} [link] of a breaker; without one, the name is left out
 */
export function auditList(records, { known, range }, now, link) {
  const since = known < Infinity && time(new Date(known).toISOString(), now);
  const more = !report && range < longest && known <= now - range * 1000 && ' A longer time axis may show earlier changes.';
  const said = (/** @type {import('./dom').Child[]} */ ...text) => h('p', { class: 'muted' }, ...text);
  if (records.length === 0) return [since ? said('Nobody has changed anything since ', since, '.', more) : said('Not known yet.')];
  const shown = records.slice(0, most);
  const rest = records.length - shown.length;
  const head = ['When', 'Who', ...(link ? ['Breaker'] : []), 'What', 'Why'];
  return [h('table', { class: 'audit', 'aria-label': 'Changes' },
    h('thead', {}, h('tr', {}, ...head.map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, ...shown.map((r) => h('tr', { class: r.error ? 'failed' : null },
      h('td', {}, time(r.at, now)),
      h('td', { title: r.remote ? `from ${r.remote}` : null }, r.by || (r.remote ? 'not said' : 'the program')),
      link && h('td', {}, r.name ? h('a', { href: link(r.name) }, r.name) : 'all'),
      h('td', {}, what(r)),
      h('td', {}, r.error ? `${refused(r)}: ${r.error}` : r.reason || ''))))),
  ...(rest > 0 ? [said(`${number(rest)} earlier ones are not shown.`)] : since ? [said('Changes before ', since, ' are not shown.', more)] : []),
  ];
}

/** @param {AuditRecord} r */
const refused = (r) => `refused (${r.status}${r.times && r.times > 1 ? `, ${number(r.times)} times` : ''})`;

/** @param {AuditRecord} r */
function what(r) {
  const mode = r.action === 'override' ? (r.mode ?? r.action) : r.action;
  return r.ttl ? `${mode} for ${span(seconds(r.ttl))}` : mode;
}
