// @ts-check

// What an operator can do to a breaker: each change says who and why, is asked
// about once more, and says what came of it.

import { Refused, post, setToken, token } from './api.js';
import { h, say } from './dom.js';
import { seconds, span } from './format.js';

/** @typedef {import('./types').Breaker} Breaker */
/** @typedef {import('./types').Mode} Mode */

/**
 * Action is a button, and what it asks for.
 * @typedef {object} Action
 * @property {string} label
 * @property {'override' | 'lift' | 'reset'} action
 * @property {Mode} [mode]
 * @property {string} effect in words
 */

/** @type {Action[]} */
export const actions = [
  { label: 'Force open', action: 'override', mode: 'force-open', effect: 'Every call is rejected.' },
  { label: 'Force closed', action: 'override', mode: 'force-closed', effect: 'Every call is admitted, and nothing trips it.' },
  { label: 'Shadow', action: 'override', mode: 'shadow', effect: 'It judges, and rejects nothing.' },
  { label: 'Enforce', action: 'override', mode: 'enforce', effect: 'It judges and rejects, whatever its settings say.' },
  { label: 'Lift override', action: 'lift', effect: 'The mode of its settings is in effect again.' },
  { label: 'Reset', action: 'reset', effect: 'It closes, with an empty window; a forced state ends.' },
];

const ttls = ['1m', '5m', '15m', '1h', '6h', '24h'];
const defaultTTL = '15m';
const byKey = 'fusebox-by';

/**
 * ask opens the dialog of an action. done is called after a change with what was done, in words.
 * @param {Breaker} b
 * @param {Action} what
 * @param {(text: string) => void} done
 */
export function ask(b, what, done) {
  const why = h('input', { name: 'reason', required: true, maxlength: 1000, autocomplete: 'off', placeholder: 'incident number, or what you saw' });
  const by = h('input', { name: 'by', required: true, maxlength: 200, autocomplete: 'name', value: sessionStorage.getItem(byKey) ?? '' });
  const ttl = h('select', { name: 'ttl' },
    ...ttls.map((t) => h('option', { value: t, selected: t === defaultTTL }, `for ${span(seconds(t))}`)),
    h('option', { value: '' }, 'until it is lifted'));
  const key = h('input', { name: 'token', type: 'password', autocomplete: 'off', value: token(), 'aria-describedby': 'token-note' });
  const refused = h('p', { class: 'refused', role: 'alert' });
  const confirm = h('button', { type: 'submit', class: 'primary' }, `Yes, ${what.label.toLowerCase()}`);
  const dialog = h('dialog', { 'aria-labelledby': 'ask' });
  dialog.addEventListener('close', () => dialog.remove());
  const form = h('form', { method: 'dialog' },
    h('h2', { id: 'ask' }, `${what.label}: `, h('span', { class: 'asked' }, b.name)),
    h('p', { class: 'muted' }, what.effect),
    h('label', {}, 'Reason', why),
    h('label', {}, 'Your name', by),
    what.action === 'override' && h('label', {}, 'Holds', ttl),
    h('label', {}, 'Token', key),
    h('p', { class: 'muted small', id: 'token-note' }, 'The token of the admin handler. This page keeps it in its memory only, until you close or reload it: nothing is stored, and no other tab has it. Leave it empty where none is needed.'),
    refused,
    h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), confirm));
  dialog.append(form);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    say(refused, '');
    sessionStorage.setItem(byKey, by.value);
    setToken(key.value.trim());
    try {
      await post(b.path, {
        action: what.action, reason: why.value, by: by.value,
        ...(what.mode && { mode: what.mode }), ...(what.mode && ttl.value && { ttl: ttl.value }),
      });
      dialog.close();
      done(`${what.label}: done for ${b.name}`);
    } catch (error) {
      say(refused, refusal(error));
      if (error instanceof Refused && error.status === 401) key.focus();
    } finally {
      confirm.disabled = false;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  why.focus();
}

/**
 * refusal says that nothing was done, why, and what to do.
 * @param {unknown} error
 */
function refusal(error) {
  if (!(error instanceof Refused)) return 'It is not known whether anything was changed: the server did not answer. Look at the audit list, then try again.';
  const what = error.status === 401 ? ' Enter the token of the admin handler above and confirm again.' : '';
  return `Nothing was changed: ${error.message}.${what}`;
}
