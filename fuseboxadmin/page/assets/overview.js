// @ts-check

// What it costs, over all breakers.

import { Line } from './charts.js';
import { set } from './dom.js';

/** @typedef {import('./types').Sample} Sample */

/** @type {{ label: string, kind: string, count: (s: Sample) => number, always: boolean }[]} */
const costs = [
  { label: 'Calls', kind: '', count: (s) => s.calls, always: true },
  { label: 'Failures', kind: 'bad-line', count: (s) => s.failures, always: true },
  { label: 'Slow calls', kind: '', count: (s) => s.slow, always: true },
  { label: 'Rejected', kind: 'bad-line', count: (s) => s.rejected, always: true },
  { label: 'Fallbacks', kind: '', count: (s) => s.fallbacks, always: true },
  { label: 'Would reject, good', kind: '', count: (s) => s.would_reject_good, always: false },
  { label: 'Would reject, bad', kind: '', count: (s) => s.would_reject_bad, always: false },
];

/** Overview has a line for each thing that a breaker costs or saves. */
export class Overview extends HTMLElement {
  constructor() {
    super();
    this.lines = costs.map(() => new Line());
    this.append(...this.lines);
    set(this, 'role', 'group');
    set(this, 'aria-label', 'What it costs: all breakers');
  }

  /**
   * @param {import('./store').Store} store
   * @param {number} range seconds
   */
  show(store, range) {
    const now = store.now();
    costs.forEach(({ label, kind, count, always }, i) => {
      const line = this.lines[i];
      line.hidden = !always && !store.sums.some((s) => count(s) > 0);
      if (!line.hidden) line.show(label, store.sum(count), now - range * 1000, now, kind, '');
    });
  }
}

customElements.define('fb-overview', Overview);
