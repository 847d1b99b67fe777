// @ts-check

// What a breaker amounts to at a moment.

/** @typedef {import('./types').Breaker} Breaker */
/** @typedef {import('./types').Totals} Totals */

/**
 * Look is what a breaker amounts to at a moment.
 * @typedef {object} Look
 * @property {import('./types').State} state
 * @property {boolean} would it only judges: it admits what it would reject
 * @property {boolean} forced
 * @property {number} severity 0 is the worst
 */

/**
 * isOverridden is whether a mode set by hand is in effect: its time may have ended since.
 * @param {Breaker} b
 * @param {number} now
 */
export const isOverridden = (b, now) => b.override === true && !(b.note?.until && Date.parse(b.note.until) <= now);

/**
 * look reads a breaker as the server would: its open period may have ended since.
 * @param {Breaker} b
 * @param {number} now
 * @returns {Look}
 */
export function look(b, now) {
  const over = b.state === 'open' && b.until !== undefined && Date.parse(b.until) <= now;
  const state = over ? 'half-open' : b.state;
  const overridden = isOverridden(b, now);
  const shadow = b.mode === 'shadow' && (overridden || !b.override);
  const harmless = state === 'closed' ? !overridden : shadow;
  return {
    state,
    would: shadow && state !== 'closed',
    forced: overridden && (b.mode === 'force-closed' || (b.mode === 'force-open' && !over)),
    severity: { open: 0, 'half-open': 2, closed: 4 }[state] + (harmless ? 1 : 0),
  };
}

/** @type {Record<string, (l: Look) => boolean>} */
export const filters = {
  open: (l) => l.state === 'open' && !l.would,
  'half-open': (l) => l.state === 'half-open' && !l.would,
  forced: (l) => l.forced,
  would: (l) => l.would,
  closed: (l) => l.state === 'closed',
};

/** @param {Totals} t */
export const totalCalls = (t) => t.successes + t.failures + t.ignored + t.late + t.would_reject.successes + t.would_reject.failures + t.would_reject.ignored;

/** @param {Totals} t */
export const totalRejected = (t) => t.rejected_open + t.rejected_probing;
