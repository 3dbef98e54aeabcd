// Shows unified diffs side by side.

import { appendRaw, el, raw } from './dom.js';
import { parseDiff, sideBySide } from './diff-parse.js';

const LONGEST = 5000;

/** The lengths of the common beginning and end of two lines. */
function common(a, b) {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start++;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return { start, end };
}

function lineCell(line, other, mark) {
  if (!line) return el('td', { class: 'diff-none' });
  const cell = el('td', { class: mark ? `diff-line ${mark}` : 'diff-line' });
  const { text } = line;
  if (mark && other && text.length < LONGEST) {
    const { start, end } = common(text, other.text);
    appendRaw(cell, text.slice(0, start));
    const middle = el('mark', {});
    appendRaw(middle, text.slice(start, text.length - end));
    if (text.length > start + end) cell.append(middle);
    appendRaw(cell, text.slice(text.length - end));
  } else appendRaw(cell, text);
  if (line.hasNoNewline) cell.append(el('span', { class: 'code-point' }, 'no newline'));
  return cell;
}

const numberCell = (line) => el('td', { class: 'diff-number' }, line ? String(line.number) : '');

function hunkRows(hunk) {
  const rows = sideBySide(hunk).map(({ kind, left, right }) => el('tr', {},
    numberCell(left), lineCell(left, right, kind === 'changed' ? 'removed' : null),
    numberCell(right), lineCell(right, left, kind === 'changed' ? 'added' : null)));
  return [el('tr', { class: 'diff-hunk' }, el('td', { colspan: 4 }, hunk.header)), ...rows];
}

function fileTable(file) {
  const name = file.to && file.to !== '/dev/null' ? file.to : file.from;
  const head = el('thead', {}, el('tr', {},
    ['Line', 'Before', 'Line', 'After'].map((title) => el('th', { scope: 'col' }, title))));
  const table = el('table', { class: 'diff' }, el('caption', { class: 'visually-hidden' }, 'Differences of ', raw(name ?? '')), head,
    el('tbody', {}, file.hunks.flatMap(hunkRows)));
  return el('div', { class: 'scroll-x', tabindex: 0, role: 'region', 'aria-label': 'Differences' }, table);
}

/** The elements that show a unified diff of one or more files. */
export function diffElements(text) {
  return parseDiff(text).map((file) => el('section', { class: 'diff-file' },
    file.heading ? el('h4', {}, raw(file.heading)) : null, file.hunks.length ? fileTable(file) : null));
}
