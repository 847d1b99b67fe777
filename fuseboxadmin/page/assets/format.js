// @ts-check

// Numbers, times and records in words.

import { h } from './dom.js';

/** @typedef {import('./types').Transition} Transition */
/** @typedef {import('./types').Breaker} Breaker */

const nbsp = '\u00a0';

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const minuteFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const digitFormat = new Intl.NumberFormat('en', { maximumFractionDigits: 20, useGrouping: false }); // to make one for each number is slow
const dayFormat = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/**
 * clock is the time of day in the viewer's zone, with the date if that is not today's.
 * @param {Date} date
 * @param {number} now milliseconds
 */
export function clock(date, now) {
  const time = clockFormat.format(date);
  return date.toDateString() === new Date(now).toDateString() ? time : `${dayFormat.format(date)}, ${time}`;
}

/** @param {Date} date */
export const minute = (date) => minuteFormat.format(date);

/** @param {Date} date */
export const day = (date) => [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, '0')).join('-');

/** @param {Date} date */
export const utc = (date) => `${date.toISOString().replace('T', ' ').replace(/\.\d+Z$/, '')} UTC`;

/**
 * time is an element with the time of day, and UTC on hover.
 * @param {string} iso
 * @param {number} now
 */
export function time(iso, now) {
  const date = new Date(iso);
  return h('time', { datetime: iso, title: utc(date) }, clock(date, now));
}

/** @type {Record<string, number>} */
const units = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, 'µs': 1e-6, ns: 1e-9 };

/**
 * seconds reads a duration as Go writes it.
 * @param {string | null | undefined} text
 */
export function seconds(text) {
  let sum = 0;
  for (const [, number, unit] of (text ?? '').matchAll(/([\d.]+)(h|ms|m|s|us|µs|ns)/g)) sum += Number(number) * units[unit];
  return sum;
}

/**
 * span writes seconds as people say them: two units at most.
 * @param {number} value
 */
export function span(value) {
  if (value === 0) return `0${nbsp}s`;
  if (value < 0.9995) return `${Math.round(value * 1000)}${nbsp}ms`;
  if (value < 10) return `${trim(value.toFixed(1))}${nbsp}s`;
  const all = Math.round(value);
  if (all < 60) return `${all}${nbsp}s`;
  if (all < 3600) return two(Math.floor(all / 60), 'min', all % 60, 's');
  if (all < 86400) return two(Math.floor(all / 3600), 'h', Math.floor((all % 3600) / 60), 'min');
  return two(Math.floor(all / 86400), 'd', Math.floor((all % 86400) / 3600), 'h');
}

/**
 * @param {number} a
 * @param {string} unitA
 * @param {number} b
 * @param {string} unitB
 */
function two(a, unitA, b, unitB) {
  return `${a}${nbsp}${unitA}` + (b > 0 ? ` ${b}${nbsp}${unitB}` : '');
}

/** @param {string} text */
const trim = (text) => text.replace(/\.0+$/, '');

/**
 * countdown writes a time that is running out, in whole seconds: it changes once a second.
 * @param {number} value seconds
 */
export const countdown = (value) => span(Math.max(0, Math.ceil(value)));

/**
 * exactly writes the seconds that somebody has set: with their digits.
 * @param {number} value
 */
export const exactly = (value) => (value < 60 ? `${digits(value < 1 ? value * 1000 : value)}${nbsp}${value < 1 ? 'ms' : 's'}` : span(value));

/**
 * digits writes a number with as many digits as it has; those that come from counting in halves are none.
 * @param {number} value
 */
const digits = (value) => digitFormat.format(Number(value.toPrecision(15)));

/**
 * percent writes a fraction: a threshold as it was set; what is compared with one, in so few digits as do not
 * say that it has reached the threshold, or that it is nothing, where that is not so.
 * @param {number} fraction
 * @param {number} [threshold]
 */
export function percent(fraction, threshold) {
  const value = fraction * 100;
  let text = digits(value);
  if (threshold !== undefined) {
    const limit = digits(threshold * 100);
    const says = () => Number(text) >= Number(limit) === fraction >= threshold && Number(text) > 0 === fraction > 0;
    let places = Math.max(value < 10 ? 1 : 0, Math.min(2, limit.split('.')[1]?.length ?? 0));
    do text = digits(Number(value.toFixed(places)));
    while (!says() && ++places < 15);
  }
  return `${text}${nbsp}%`;
}

/** @param {number} value */
export const number = (value) => value.toLocaleString('en', { maximumFractionDigits: 1 }).replaceAll(',', '\u202f');

/** @param {number} perSecond */
export function perSecond(perSecond) {
  if (perSecond === 0) return '0/s';
  if (perSecond < 0.095) return '<0.1/s';
  return `${perSecond < 99.95 ? trim(perSecond.toFixed(1)) : number(Math.round(perSecond))}/s`;
}

/**
 * some writes a number of things.
 * @param {number} n
 * @param {string} thing
 */
export const some = (n, thing) => `${number(n)} ${thing}${n === 1 ? '' : 's'}`;

/** @type {Record<string, string>} */
const modes = {
  enforce: 'set to enforce', shadow: 'set to shadow', off: 'switched off',
  'force-open': 'forced open', 'force-closed': 'forced closed',
};

/**
 * verb is what a record did.
 * @param {Transition} t
 */
export function verb(t) {
  switch (t.cause) {
    case 'override': return modes[t.mode];
    case 'override-ended': return 'override ended';
    case 'lift': return 'override lifted';
    case 'reset': return 'reset';
    case 'reconfigured': return 'reconfigured';
  }
  const shadow = t.mode === 'shadow';
  if (t.cause === 'deadline') return shadow ? 'would have begun to probe' : 'began to probe';
  const did = t.to === 'closed' ? 'closed' : t.from === 'closed' ? 'tripped' : 'reopened';
  return shadow ? `would have ${did}` : did;
}

/**
 * reason is why a record was made, with its numbers.
 * @param {Transition} t
 */
export function reason(t) {
  const { calls, failures, slow, consecutive } = t.counts;
  const within = t.window ? ` in ${exactly(seconds(t.window))}` : '';
  const threshold = t.threshold ?? 0;
  const share = (/** @type {number} */ n) => (calls > 0 ? n / calls : 0);
  switch (t.cause) {
    case 'failure-rate':
      return `failure rate ${percent(share(failures), threshold)} ≥ ${percent(threshold)} (${number(failures)} of ${some(calls, 'call')}${within})`;
    case 'slow-rate':
      return `slow rate ${percent(share(slow), threshold)} ≥ ${percent(threshold)} (${number(slow)} of ${some(calls, 'call')}${within})`;
    case 'consecutive':
      return `${some(consecutive, 'failure')} in a row ≥ ${number(threshold)}`;
    case 'trip-when':
      return `a rule of the program's own (${number(failures)} of ${some(calls, 'call')} failed, ${number(slow)} slow${within})`;
    case 'probe-failed':
      return `${number(failures)} of ${some(calls, 'probe')} failed${slow > 0 ? `, ${number(slow)} slow` : ''}`;
    case 'probe-expired':
      return `${number(failures)} of ${some(calls, 'probe')} failed, the last by not finishing in time`;
    case 'probes-succeeded':
      return `${some(threshold, 'probe')} succeeded`;
    case 'deadline':
      return 'the open period is over';
    case 'override-ended':
      return ['its time is over', note(t.note, 'set by ')].filter(Boolean).join('; ');
    default:
      return note(t.note, 'by ');
  }
}

/**
 * note writes who did something, and why.
 * @param {import('./types').Note | undefined} n
 * @param {string} before the name
 */
export function note(n, before) {
  return [n?.by && before + n.by, n?.reason].filter(Boolean).join(': ');
}

/**
 * because is what follows the verb and the time of a record: ": failure rate …; last error: …", " by anna: …".
 * @param {Transition} t
 */
export function because(t) {
  const why = reason(t);
  const error = t.last_error && t.to === 'open' && t.cause !== 'override' ? `; last error: ${t.last_error}` : '';
  return `${why && (why.startsWith('by ') ? ' ' : ': ')}${why}${error}`;
}

/**
 * sentence is a record in words: "tripped 14:03:07: failure rate 63 % ≥ 50 % (41 of 65 calls in 10 s); last error: …".
 * @param {Transition} t
 * @param {number} now
 */
export const sentence = (t, now) => `${verb(t)} ${clock(new Date(t.at), now)}${because(t)}`;

/**
 * rule names what trips a breaker.
 * @param {string} cause
 */
export function ruleName(cause) {
  return /** @type {Record<string, string>} */ ({
    'failure-rate': 'Failure rate', 'slow-rate': 'Slow rate', consecutive: 'Failures in a row', 'trip-when': "The program's own rule",
  })[cause] ?? cause;
}
