// The list of a directory: streamed, sorted and filtered.

import { stream } from './api.js';
import { appendRaw, el } from './dom.js';
import { modeLetters, owner, plural, size, time } from './format.js';
import { announce, messageBoxes } from './messages.js';
import { exact, pathParameters } from './paths.js';
import { VirtualList } from './virtual-list.js';

const ICONS = { directory: '▸', symlink: '↪', file: '', block_device: '▤', character_device: '▥', fifo: '⇄', socket: '⇆' };

const compare = {
  name: (a, b) => (a.exactName < b.exactName ? -1 : a.exactName > b.exactName ? 1 : 0),
  size: (a, b) => a.size_bytes - b.size_bytes,
  modified: (a, b) => (a.modified < b.modified ? -1 : a.modified > b.modified ? 1 : 0),
};

function renderName(entry, cell) {
  cell.append(el('span', { class: 'icon', 'aria-hidden': 'true' }, ICONS[entry.type] ?? '?'));
  const name = el('bdi', { class: `raw type-${entry.type}` });
  appendRaw(name, entry.exactName);
  cell.append(name);
  if (entry.target !== undefined && entry.target !== null) {
    cell.append(' → ');
    const target = el('bdi', { class: 'raw target' });
    appendRaw(target, exact(entry, 'target'));
    cell.append(target);
  }
}

const COLUMNS = [
  { title: 'Name', key: 'name', name: 'name', render: renderName },
  { title: 'Size', key: 'size', name: 'number', render: (entry, cell) => cell.append(entry.type === 'directory' ? '' : size(entry.size_bytes)) },
  { title: 'Modified (UTC)', key: 'modified', name: 'time', render: (entry, cell) => cell.append(time(entry.modified)) },
  { title: 'Mode', name: 'mode', render: (entry, cell) => cell.append(modeLetters(entry.type, entry.mode)) },
  { title: 'Owner', name: 'owner', render: (entry, cell) => appendRaw(cell, owner(entry)) },
];

export class FileList {
  constructor({ onopen, onchoose, onkey }) {
    this.entries = [];
    this.sort = { key: 'name', isDescending: false };
    this.filter = '';
    this.list = new VirtualList({
      label: 'Files', columns: COLUMNS, onopen, onchoose, onkey, onsort: (key) => this.sortBy(key), empty: 'no files',
    });
    this.list.showSort('name', false);
    this.summary = el('p', { class: 'summary' });
    this.messages = el('div');
    this.element = el('div', { class: 'file-list' }, this.messages, this.list.frame, this.summary);
  }

  sortBy(key) {
    const isDescending = this.sort.key === key ? !this.sort.isDescending : key !== 'name';
    this.sort = { key, isDescending };
    this.list.showSort(key, isDescending);
    this.arrange();
  }

  setFilter(text) {
    this.filter = text.toLowerCase();
    this.arrange();
  }

  #matches(entry) {
    return !this.filter || entry.exactName.toLowerCase().includes(this.filter);
  }

  /** Applies filter and order to all entries. */
  arrange() {
    const shown = this.entries.filter((entry) => this.#matches(entry));
    const { key, isDescending } = this.sort;
    if (key !== 'name') shown.sort(compare[key]);
    if (isDescending) shown.reverse();
    const active = this.list.items[this.list.active];
    this.list.setItems(shown);
    this.list.active = active ? shown.indexOf(active) : -1;
    this.#summarize();
  }

  #summarize() {
    const shown = this.list.items.length;
    const all = plural(this.entries.length, 'entry', 'entries');
    this.summary.textContent = `${shown === this.entries.length ? all : `${shown} of ${all}`}${this.isLoading ? ', loading' : ''}`;
  }

  #append(entries) {
    for (const entry of entries) entry.exactName = exact(entry, 'name');
    this.entries.push(...entries);
    if (this.sort.key === 'name' && !this.sort.isDescending) {
      this.list.items.push(...entries.filter((entry) => this.#matches(entry)));
      this.list.grow();
    } else if (performance.now() - (this.arranged ?? 0) > 1000) {
      this.arranged = performance.now();
      this.arrange();
    }
    this.#summarize();
  }

  /** Loads a directory. The result is its entries; a failure is thrown after the entries that did arrive are shown. */
  async load(parameters, path, signal) {
    this.entries = [];
    this.isLoading = true;
    this.list.isLoading = true;
    this.list.element.scrollTop = 0;
    this.messages.replaceChildren();
    this.list.setItems([]);
    this.list.active = -1;
    try {
      const { messages } = await stream('ls', { ...parameters, ...pathParameters(path) }, (entries) => {
        if (!signal.aborted) this.#append(entries);
      }, { signal });
      this.messages.append(...messageBoxes(messages));
    } finally {
      if (!signal.aborted) {
        this.isLoading = false;
        this.list.isLoading = false;
        this.arrange();
        announce(this.summary.textContent);
      }
    }
    return this.entries;
  }

  select(name) {
    const index = this.list.items.findIndex((entry) => entry.exactName === name);
    if (index >= 0 && index !== this.list.active) this.list.activate(index);
  }
}
