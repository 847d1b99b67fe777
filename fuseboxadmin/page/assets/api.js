// @ts-check

// The admin API, relative to where the page is. In a report its answers are in
// the file, and nothing can be written.

import { reasonOf } from './stream.js';

/** @typedef {import('./types').Change} Change */

const inside = document.getElementById('answers');

/**
 * answers are those that a report carries, by path; null on a live page.
 * @type {Record<string, any> | null}
 */
const answers = inside && JSON.parse(inside.textContent ?? '');

/** report is whether this is a file that shows one moment. */
export const report = answers !== null;

/** Refused is an answer that is not a success. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string} [field]
   */
  constructor(status, message, field) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

/** @param {string} path */
export const address = (path) => new URL(path, document.baseURI).href;

/**
 * get asks for a path relative to the page: "api/breakers".
 * @param {string} path
 * @returns {Promise<any>}
 */
export async function get(path) {
  if (!answers) return request(path, { cache: 'no-store' });
  const answer = answers[path.split('?')[0]];
  if (answer === undefined) throw new Refused(404, 'the report does not have this');
  return structuredClone(answer);
}

/**
 * post asks for a change; the token comes from token().
 * @param {string} path
 * @param {Change} change
 */
export function post(path, { action, ...fields }) {
  const headers = { 'Content-Type': 'application/json', ...(token() && { Authorization: `Bearer ${token()}` }) };
  return request(`${path}/${action}`, { method: 'POST', headers, body: JSON.stringify(fields) });
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function request(path, options) {
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), 15_000);
  try {
    const response = await fetch(address(path), { ...options, signal: patience.signal });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    const { error, field } = reasonOf(response, text);
    throw new Refused(response.status, error, field);
  } finally {
    clearTimeout(timer);
  }
}

// The token is in the memory of this page and nowhere else: what a browser keeps
// for a tab it may write to a disk, to open the tab again after a crash.
let given = '';

/** @returns {string} */
export const token = () => given;

/** @param {string} value */
export function setToken(value) {
  given = value;
}
