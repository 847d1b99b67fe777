// @ts-check

// What a screen reader is told.

import { h } from './dom.js';

/**
 * speak has a screen reader say a text, once more too if it is the same as before. The region is there from the
 * beginning: a reader does not listen to one that comes with its text. Each time the text is a new element, and has
 * another ending that nobody hears, for readers that compare texts.
 * @param {Element} region of the role status
 * @param {string} text
 */
export function speak(region, text) {
  const again = region.textContent === text;
  region.replaceChildren(h('span', {}, again ? `${text}\u00a0` : text));
}
