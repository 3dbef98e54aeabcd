// Draws a strip of the disk map: segments in a row that can be chosen by mouse, touch and arrow keys.

import { el, uniqueId } from './dom.js';

const percent = (fraction) => `${(fraction * 100).toFixed(4)}%`;

function moveChoice(key, index, last) {
  if (key === 'ArrowRight' || key === 'ArrowDown') return Math.min(last, index + 1);
  if (key === 'ArrowLeft' || key === 'ArrowUp') return Math.max(0, index - 1);
  if (key === 'Home') return 0;
  if (key === 'End') return last;
  return null;
}

function segmentElement(segment) {
  const element = el('div', {
    role: 'option', id: uniqueId('segment'), class: `segment ${segment.kind}`, 'aria-label': segment.label,
    title: segment.label, 'aria-selected': 'false',
  }, el('span', { class: 'segment-text', 'aria-hidden': 'true' }, segment.text ?? ''));
  element.style.left = percent(segment.left);
  element.style.width = percent(segment.width);
  return element;
}

/**
 * A strip with a title. Each segment has `left` and `width` as fractions, a `kind` for its colour, a `label`, an
 * optional `text`, and what `onchoose` gets.
 */
export function strip(title, segments, onchoose) {
  const elements = segments.map(segmentElement);
  const id = uniqueId('strip');
  let chosen = -1;
  const box = el('div', { role: 'listbox', tabindex: 0, class: 'strip', 'aria-labelledby': id }, elements);
  const mark = (index) => {
    elements[chosen]?.setAttribute('aria-selected', 'false');
    chosen = index;
    elements[chosen].setAttribute('aria-selected', 'true');
    box.setAttribute('aria-activedescendant', elements[chosen].id);
  };
  const choose = (index) => {
    if (index < 0 || !elements[index]) return;
    for (const other of document.querySelectorAll('.strip [aria-selected="true"]')) other.setAttribute('aria-selected', 'false');
    mark(index);
    onchoose(segments[index]);
  };
  box.addEventListener('click', (event) => choose(elements.indexOf(event.target.closest('.segment'))));
  box.addEventListener('keydown', (event) => {
    const next = moveChoice(event.key, chosen, elements.length - 1);
    if (next === null) return;
    event.preventDefault();
    choose(next);
  });
  return el('div', { class: 'strip-row' }, el('div', { class: 'strip-title', id }, title), box);
}

/** A strip that only shows ranges of the disk, such as the extents of a file; `scale` maps offsets to fractions. */
export function picture(label, places, ranges, scale) {
  const box = el('div', { role: 'img', class: 'strip small', 'aria-label': label });
  const add = (start, length, name) => {
    const left = scale(start);
    const element = el('div', { class: name });
    element.style.left = percent(left);
    element.style.width = percent(scale(start + length) - left);
    box.append(element);
  };
  for (const place of places) add(place.start, place.length, 'segment partition faint');
  for (const range of ranges) add(range.start, range.length, 'segment extent');
  return box;
}
