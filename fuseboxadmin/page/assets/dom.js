// @ts-check

// Elements are made here and nowhere else. Text becomes text nodes: nothing
// that the page shows is ever parsed as markup.

/** @typedef {string | number | Node | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Props */

/**
 * @param {Element} element
 * @param {Props} props
 * @param {Child[]} children
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') element.addEventListener(name.slice('on'.length), value);
    else set(element, name, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(typeof child === 'number' ? String(child) : child);
  }
}

/**
 * h makes an HTML element: a property that is a function is a listener, the others are attributes.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, props, children);
  return element;
}

/**
 * s makes an SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {Child[]} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, props = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  fill(element, props, children);
  return element;
}

/**
 * set sets an attribute if that changes it; null, undefined and false remove it.
 * @param {Element} element
 * @param {string} name
 * @param {string | number | boolean | null | undefined} value
 */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/**
 * say sets the text of an element if that changes it: a reader is not told twice.
 * @param {Node} element
 * @param {string | number} text
 */
export function say(element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
}

/**
 * renew puts other content into an element. What is unfolded in it stays so, and the focus where it is: lists grow at
 * their beginning, so places count from the end. If there is none for it any more, it goes to another element.
 * @param {Element} element
 * @param {(Node | string)[]} content
 * @param {HTMLElement} other
 */
export function renew(element, content, other) {
  const reached = () => /** @type {HTMLElement[]} */ ([...element.querySelectorAll('a, button, summary, [tabindex]')]);
  const before = reached();
  const at = before.findIndex((e) => e === document.activeElement);
  const unfolded = element.querySelector('details')?.open;
  element.replaceChildren(...content);
  if (unfolded) set(element.querySelector('details') ?? element, 'open', true);
  if (at >= 0) (reached().at(at - before.length) ?? other).focus({ preventScroll: true });
}

/**
 * Icons of states differ in shape, not only in colour.
 * @type {Record<string, string>}
 */
const shapes = {
  closed: 'M1 8h14',
  'half-open': 'M1 8h3.5M11.5 8H15M4.5 8l6.5-3.2',
  open: 'M1 8h3.5M11.5 8H15M4.5 8l5-6',
  forced: 'M1 8h3.5M11.5 8H15M8 1.5v8M5.3 7 8 9.7 10.7 7',
};

/**
 * icon draws a switch in a state.
 * @param {string} state
 */
export function icon(state) {
  return s('svg', { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' },
    s('path', { d: shapes[state] }),
    s('circle', { cx: 4.5, cy: 8, r: 1.6 }),
    s('circle', { cx: 11.5, cy: 8, r: 1.6 }));
}
