// @ts-check

// The settings of a breaker, as the file of the program spells them.

/** @typedef {{ key: string, value: string, origin: string }} Setting */

/** @type {[string, string][]} */
const keys = [
  ['mode', 'mode'], ['window', 'window'], ['buckets', 'buckets'], ['window_calls', 'window-calls'], ['min_calls', 'min-calls'],
  ['failure_rate', 'failure-rate'], ['slow_after', 'slow-after'], ['slow_rate', 'slow-rate'], ['consecutive', 'consecutive'],
  ['open_for', 'open-for'], ['open_for_max', 'open-for-max'], ['open_jitter', 'open-jitter'],
  ['probes', 'probes'], ['close_after', 'close-after'], ['reopen_after', 'reopen-after'], ['probe_timeout', 'probe-timeout'], ['stable_after', 'stable-after'],
];
const shares = new Set(['failure_rate', 'slow_rate', 'open_jitter']);

/**
 * settings lists what is in effect. entries are those of a configuration file, if there is one.
 * @param {Record<string, any>} config
 * @param {string} name of the breaker
 * @param {{ path: string, value: string, origin: string }[]} entries
 * @param {string[]} [defaults] those of config that are; the program may have written the same value
 * @returns {Setting[]}
 */
export function settings(config, name, entries, defaults = []) {
  const origins = new Map();
  for (const upstream of [name.split('/')[0], name]) { // a breaker of an endpoint is UPSTREAM/ENDPOINT
    const before = `upstreams.${upstream}.breaker.`;
    for (const e of entries) if (e.path.startsWith(before)) origins.set(e.path.slice(before.length), e.origin);
  }
  const found = keys.map(([field, key]) => ({ key, value: text(field, config[field]), origin: origins.get(key) ?? (defaults.includes(field) ? 'default' : 'program') }));
  if (config.trip_when) found.push({ key: 'trip-when', value: 'a function', origin: 'program' });
  if (config.classify) found.push({ key: 'classify', value: 'a function', origin: 'program' });
  return found;
}

/**
 * @param {string} field
 * @param {any} value
 */
function text(field, value) {
  if (value === null || (field === 'window_calls' && value === 0)) return 'off';
  if (shares.has(field)) return `${Number((value * 100).toPrecision(12))}%`;
  return short(String(value));
}

/**
 * short takes the zeros off a duration: "1m0s" is "1m".
 * @param {string} value
 */
const short = (value) => value.replace(/^(\d+h)0m0s$/, '$1').replace(/^((?:\d+h)?\d+m)0s$/, '$1');

/**
 * yaml writes settings as a section of a file. A value of a function is a comment.
 * @param {string} name
 * @param {Setting[]} list
 */
export function yaml(name, list) {
  const line = (/** @type {Setting} */ { key, value, origin }) => `${value === 'a function' ? '# ' : ''}${key}: ${value} # ${origin}`;
  return [
    'upstreams:', `  ${quoted(name)}:`, '    breaker:',
    ...list.map((s) => `      ${line(s)}`), '',
  ].join('\n');
}

/**
 * quoted writes a key. What could be read as something else is quoted: JSON's quotation is YAML's too.
 * @param {string} name
 */
const quoted = (name) => (/^(?!true$|false$|null$)[a-z][\w-]{3,}$/.test(name) ? name : JSON.stringify(name));
