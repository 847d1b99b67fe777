// @ts-check

// News from the server, by way of the connection that the tabs share; where the
// browser has no shared workers, by one of this tab's own.

import { address } from './api.js';
import { Stream } from './stream.js';

/** @typedef {import('./types').News} News */

/**
 * listen tells of the events after an id until the page is left.
 * @param {number} from
 * @param {(news: News) => void} tell
 */
export function listen(from, tell) {
  const url = address('api/events');
  /** @type {Stream | null} */
  let own = null;
  const alone = () => {
    if (own) return;
    own = new Stream(url, tell);
    void own.run(from);
  };
  if (!('SharedWorker' in window)) {
    alone();
    return;
  }
  /** @type {SharedWorker} */
  let worker;
  try {
    worker = new SharedWorker(script(address('worker.js')), { type: 'module' });
  } catch {
    alone();
    return;
  }
  worker.onerror = alone;
  worker.port.onmessage = ({ data }) => tell(data);
  worker.port.postMessage({ url, from });
  addEventListener('pagehide', () => worker.port.postMessage({ leave: true }));
  addEventListener('pageshow', (event) => event.persisted && location.reload());
}

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
