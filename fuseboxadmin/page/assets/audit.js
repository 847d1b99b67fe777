// @ts-check

// Who has changed what, or tried to.

import { h } from './dom.js';
import { number, seconds, span, time } from './format.js';

/** @typedef {import('./types').AuditRecord} AuditRecord */

const most = 500; // rows

/**
 * auditList shows records, the newest first.
 * @param {AuditRecord[]} records
 * @param {number} now
 * @param {(name: string) => string} [link] of a breaker; without one, the name is left out
 */
export function auditList(records, now, link) {
  if (records.length === 0) return [h('p', { class: 'muted' }, 'Nobody has changed anything.')];
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
  ...(rest > 0 ? [h('p', { class: 'muted' }, `${number(rest)} earlier ones are not shown.`)] : []),
  ];
}

/** @param {AuditRecord} r */
const refused = (r) => `refused (${r.status}${r.times && r.times > 1 ? `, ${number(r.times)} times` : ''})`;

/** @param {AuditRecord} r */
function what(r) {
  const mode = r.action === 'override' ? (r.mode ?? r.action) : r.action;
  return r.ttl ? `${mode} for ${span(seconds(r.ttl))}` : mode;
}
