// @ts-check

// News from the server, by way of the connection that the tabs share; where the
// browser has no shared workers, or that one has died, by one of this tab's own.

import { address } from './api.js';
import { Stream } from './stream.js';

/** @typedef {import('./types').News} News */

const lookEvery = 5000; // milliseconds
const missedLooks = 6; // the worker says something every 10 s

/**
 * listen tells of the events after an id until the page is left.
 * @param {number} from
 * @param {(news: News) => void} tell
 */
export function listen(from, tell) {
  const url = address('api/events');
  let last = from;
  /** @param {News} news */
  const pass = (news) => {
    if (news.type === 'event') last = news.id;
    if (news.type !== 'pulse') tell(news);
  };
  let own = false;
  const alone = () => {
    if (own) return;
    own = true;
    void new Stream(url, pass).run(last);
  };
  /** @type {SharedWorker} */
  let worker;
  try {
    // One of another version of the page would speak another language, so it is
    // another worker, by its name. Where there are none at all this throws.
    worker = new SharedWorker(script(address('worker.js')), { type: 'module', name: `fusebox ${version()}` });
  } catch {
    alone();
    return;
  }
  // Looks are counted, not seconds: a tab, or a machine, that was asleep has missed
  // none of them.
  let looks = 0;
  const watch = setInterval(() => {
    if (++looks <= missedLooks) return;
    pass({ type: 'status', status: 'lost' });
    part();
  }, lookEvery);
  const part = () => {
    clearInterval(watch);
    worker.port.postMessage({ leave: true }); // it may come back to itself
    worker.port.close();
    alone();
  };
  worker.onerror = part;
  worker.port.onmessage = ({ data }) => {
    looks = 0;
    if (!own) pass(data);
  };
  worker.port.postMessage({ url, from });
  addEventListener('pagehide', () => worker.port.postMessage({ leave: true }));
  addEventListener('pageshow', (event) => event.persisted && location.reload());
}

/** version is a hash of the scripts, which the server has written into the page. */
const version = () => document.querySelector('meta[name=version]')?.getAttribute('content') ?? '';

/**
 * script vouches for the one script that is loaded from code; the content policy knows of no other.
 * @param {string} url
 * @returns {string}
 */
function script(url) {
  const types = /** @type {any} */ (window).trustedTypes;
  if (!types) return url;
  const own = address('worker.js');
  return types.createPolicy('fusebox', {
    createScriptURL: (/** @type {string} */ u) => {
      if (u !== own) throw new TypeError(`not a script of the page: ${u}`);
      return u;
    },
  }).createScriptURL(url);
}
