// A list of any length as an accessible grid: only the rows in sight are in the document.

import { el, uniqueId } from './dom.js';

const OVERSCAN = 8;
// Browsers limit the height of an element; longer lists are scrolled in proportion.
const LONGEST = 12_000_000;

export class VirtualList {
  /**
   * `columns`: `{ title, key, name, render(item, cell) }`, where `name` is a class and `key` makes it sortable.
   * `onsort(key)`, `onopen(item)`, `onchoose(item)`, `decorate(row, item)` are optional.
   */
  constructor({ label, columns, rowHeight = 28, role = 'grid', onsort, onopen, onchoose, onkey, decorate, empty = 'nothing to show' }) {
    Object.assign(this, { columns, rowHeight, onsort, onopen, onchoose, onkey, decorate });
    this.items = [];
    this.rows = new Map();
    this.active = -1;
    this.prefix = uniqueId('row');
    this.head = el('div', { role: 'row', class: 'list-row list-head', 'aria-rowindex': 1 }, columns.map((column) => this.#headCell(column)));
    this.body = el('div', { role: 'rowgroup', class: 'list-body' });
    this.element = el('div', { role, class: 'list', tabindex: 0, 'aria-label': label, 'aria-rowcount': 1, 'aria-colcount': columns.length },
      el('div', { role: 'rowgroup', class: 'list-head-group' }, this.head), this.body);
    this.empty = el('p', { class: 'list-empty', hidden: true }, empty);
    this.frame = el('div', { class: 'list-frame' }, this.element, this.empty);
    this.#listen();
  }

  #headCell({ title, key, name }) {
    const properties = { role: 'columnheader', class: `cell ${name ?? ''}`, 'data-key': key };
    if (!key) return el('div', properties, title);
    return el('div', properties, el('button', { type: 'button', onclick: () => this.onsort?.(key) }, title));
  }

  #listen() {
    this.element.addEventListener('scroll', () => this.#schedule(), { passive: true });
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.element.addEventListener('focus', () => {
      if (this.active < 0 && this.items.length) this.activate(0);
    });
    this.body.addEventListener('click', (event) => {
      const row = event.target.closest('[role="row"]');
      if (!row) return;
      this.activate(Number(row.dataset.index));
      this.onchoose?.(this.items[this.active], event);
    });
    this.body.addEventListener('dblclick', () => this.items[this.active] && this.onopen?.(this.items[this.active]));
    new ResizeObserver(() => this.#schedule()).observe(this.element);
  }

  #key(event) {
    if (event.target !== this.element) return;
    const page = Math.max(1, Math.floor(this.#viewHeight() / this.rowHeight) - 1);
    const last = this.items.length - 1;
    const moves = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: last };
    const item = this.items[this.active];
    if (event.key in moves) this.activate(Math.max(0, Math.min(last, moves[event.key])));
    else if (event.key === 'Enter' && item) this.onopen?.(item);
    else if (event.key === ' ' && item) this.onchoose?.(item, event);
    else if (!(item && this.onkey?.(event, item))) return;
    event.preventDefault();
  }

  #viewHeight() {
    return this.element.clientHeight - this.head.offsetHeight;
  }

  #total() {
    return this.items.length * this.rowHeight;
  }

  /** The offset into all rows for a position of the scroll bar. */
  #offset() {
    const total = this.#total();
    if (total <= LONGEST) return this.element.scrollTop;
    return this.element.scrollTop * (total - this.#viewHeight()) / (LONGEST - this.#viewHeight());
  }

  setItems(items) {
    this.items = items;
    if (this.active >= items.length) this.active = -1;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.grow();
  }

  /** Shows items that were appended to the array. */
  grow() {
    this.element.setAttribute('aria-rowcount', this.items.length + 1);
    this.body.style.height = `${Math.min(LONGEST, this.#total())}px`;
    this.empty.hidden = this.items.length > 0 || this.isLoading === true;
    this.#schedule();
  }

  #schedule() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.#render();
    });
  }

  #render() {
    const offset = this.#offset();
    const shift = this.element.scrollTop - offset;
    const first = Math.max(0, Math.floor(offset / this.rowHeight) - OVERSCAN);
    const last = Math.min(this.items.length, Math.ceil((offset + this.#viewHeight()) / this.rowHeight) + OVERSCAN);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    const added = document.createDocumentFragment();
    for (let index = first; index < last; index++) {
      let row = this.rows.get(index);
      if (!row) {
        row = this.#row(index);
        this.rows.set(index, row);
        added.append(row);
      }
      row.style.transform = `translateY(${index * this.rowHeight + shift}px)`;
    }
    this.body.append(added);
  }

  #row(index) {
    const item = this.items[index];
    const row = el('div', {
      role: 'row', class: 'list-row', id: `${this.prefix}-${index}`, 'data-index': index, 'aria-rowindex': index + 2,
      'aria-selected': index === this.active ? 'true' : 'false',
    });
    for (const column of this.columns) {
      const cell = el('div', { role: 'gridcell', class: `cell ${column.name ?? ''}` });
      column.render(item, cell);
      row.append(cell);
    }
    row.style.height = `${this.rowHeight}px`;
    this.decorate?.(row, item);
    return row;
  }

  activate(index) {
    this.rows.get(this.active)?.setAttribute('aria-selected', 'false');
    this.active = index;
    if (index < 0 || index >= this.items.length) return;
    this.#reveal(index);
    this.#render();
    this.rows.get(index)?.setAttribute('aria-selected', 'true');
    this.element.setAttribute('aria-activedescendant', `${this.prefix}-${index}`);
  }

  #reveal(index) {
    const top = index * this.rowHeight;
    const view = this.#viewHeight();
    const offset = this.#offset();
    if (top >= offset && top + this.rowHeight <= offset + view) return;
    const wanted = top < offset ? top : top + this.rowHeight - view;
    const total = this.#total();
    this.element.scrollTop = total <= LONGEST ? wanted : wanted * (LONGEST - view) / (total - view);
  }

  showSort(key, isDescending) {
    for (const cell of this.head.children) {
      if (cell.dataset.key === key) cell.setAttribute('aria-sort', isDescending ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    }
  }
}
