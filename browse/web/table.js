// Plain tables: facts with one row per name, and lists with columns.

import { el, raw } from './dom.js';

export const cell = (value) => {
  if (value === null || value === undefined) return '';
  return value instanceof Node ? value : raw(Array.isArray(value) ? value.join(', ') : value);
};

const isEmpty = (value) => value === null || value === undefined || value === '' || (Array.isArray(value) && !value.length);

/** A table of names and values; empty values are left out. */
export function facts(rows, caption) {
  const body = rows.filter((row) => row && !isEmpty(row[1])).map(([name, value]) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, cell(value))));
  return el('table', { class: 'facts' }, caption ? el('caption', {}, caption) : null, el('tbody', {}, body));
}

/** A table with a header row. A column is `[title, function of the row, class]`. */
export function grid(rows, columns, caption) {
  const head = el('tr', {}, columns.map(([title, , name]) => el('th', { scope: 'col', class: name }, title)));
  const body = rows.map((row) => el('tr', {}, columns.map(([, value, name]) => el('td', { class: name }, cell(value(row))))));
  const table = el('table', { class: 'grid' }, caption ? el('caption', {}, caption) : null, el('thead', {}, head), el('tbody', {}, body));
  return el('div', { class: 'scroll-x', tabindex: 0, role: 'region', 'aria-label': caption ?? 'Table' }, table);
}
