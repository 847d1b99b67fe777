// @ts-check

// The one connection of all tabs: a browser allows few to a server.

import { Stream } from './stream.js';

/** @typedef {import('./types').News} News */

const kept = 512; // for tabs that come later; who knows less lists anew
const pulseEvery = 10_000; // milliseconds: a tab that hears nothing for some of these goes its own way

/** @type {Set<MessagePort>} */
const ports = new Set();
/** @type {Extract<News, { type: 'event' }>[]} */
let events = [];
/** @type {Stream | null} */
let stream = null;
let first = 0; // the stream began after this event
/** @type {News} */
let status = { type: 'status', status: 'connecting' };

/** @param {News} news */
function tell(news) {
  if (news.type === 'event') events = [...events.slice(1 - kept), news];
  if (news.type === 'status') status = news;
  for (const port of ports) port.postMessage(news);
}

/**
 * @param {MessagePort} port
 * @param {string} url
 * @param {number} from the last event that the tab knows
 */
function join(port, url, from) {
  ports.add(port);
  port.postMessage(status);
  if (!stream) {
    first = from;
    stream = new Stream(url, tell);
    void stream.run(from);
    return;
  }
  // A tab that knows less than what is kept here sees a gap, and lists anew.
  for (const event of events) if (event.id > from) port.postMessage(event);
  if (from < first && events.length === 0) port.postMessage({ type: 'event', id: first, kind: 'reset', data: {} });
}

/** @param {MessagePort} port */
function leave(port) {
  ports.delete(port);
  if (ports.size > 0) return;
  stream?.stop();
  stream = null;
  events = [];
  status = { type: 'status', status: 'connecting' };
}

setInterval(() => {
  for (const port of ports) port.postMessage({ type: 'pulse' });
}, pulseEvery);

self.addEventListener('connect', (event) => {
  const [port] = /** @type {MessageEvent} */ (event).ports;
  port.addEventListener('close', () => leave(port)); // where the browser tells of tabs that are gone
  port.onmessage = ({ data }) => {
    if (data.leave) leave(port);
    else join(port, data.url, data.from);
  };
});
