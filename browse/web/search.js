// Search below a directory, by name or by contents; results are shown while they arrive.

import { stream } from './api.js';
import { appendRaw, button, el, field, select } from './dom.js';
import { plural, size, time } from './format.js';
import { announce, errorBox, messageBoxes } from './messages.js';
import { exact, pathParameters } from './paths.js';
import { VirtualList } from './virtual-list.js';

const cell = (text) => (item, place) => appendRaw(place, text(item) ?? '');

const NAME_COLUMNS = [
  { title: 'Path', name: 'name', render: cell((item) => exact(item, 'path')) },
  { title: 'Size', name: 'number', render: cell((item) => size(item.size_bytes)) },
  { title: 'Modified (UTC)', name: 'time', render: cell((item) => time(item.modified)) },
];

const LINE_COLUMNS = [
  { title: 'Path', name: 'name', render: cell((item) => exact(item, 'path')) },
  { title: 'Line', name: 'number', render: cell((item) => item.line_number ?? '') },
  { title: 'Text', name: 'line-text', render: (item, place) => (item.binary ? place.append('binary file matches') : appendRaw(place, (exact(item, 'line') ?? '').slice(0, 500))) },
];

/** A plain word is looked for anywhere in a name. */
const pattern = (text) => (/[*?[]/.test(text) ? text : `*${text}*`);

export class Search {
  /** `onopen(path)` shows a result; `onsearch(kind, text)` puts a search into the address. */
  constructor({ onopen, onsearch, onclose }) {
    Object.assign(this, { onopen, onsearch });
    this.kind = select([['find', 'names'], ['grep', 'contents']], 'find', () => {});
    this.text = el('input', { type: 'search', required: true, spellcheck: 'false' });
    this.submit = el('button', { type: 'submit' }, 'Search');
    this.cancel = button('Cancel', () => this.stop(), { hidden: true });
    this.form = el('form', { class: 'toolbar search', role: 'search', 'aria-label': 'Search below this directory' },
      field('Search in', this.kind), field('for', this.text), this.submit, this.cancel);
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.text.value) onsearch(this.kind.value, this.text.value);
    });
    this.summary = el('p', { class: 'summary' });
    this.place = el('div');
    this.element = el('section', { class: 'search-results', 'aria-label': 'Results', hidden: true },
      el('div', { class: 'panel-head' }, this.summary, button('Close the search', onclose)), this.place);
  }

  #parameters(kind, text, path) {
    const where = pathParameters(path);
    return kind === 'find' ? { ...where, name: pattern(text) } : { ...where, pattern: text, fixed: 1, ignore_case: 1 };
  }

  async run(kind, text, path, parameters) {
    this.stop();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.kind.value = kind;
    this.text.value = text;
    this.element.hidden = false;
    this.cancel.hidden = false;
    const items = [];
    const list = new VirtualList({
      label: 'Results', columns: kind === 'find' ? NAME_COLUMNS : LINE_COLUMNS, empty: 'no match',
      onopen: (item) => this.onopen(exact(item, 'path')), onchoose: (item) => this.onopen(exact(item, 'path')),
    });
    list.items = items;
    list.isLoading = true;
    list.grow();
    this.place.replaceChildren(list.frame);
    const tell = (end) => { this.summary.textContent = `${plural(items.length, 'match', 'matches')}${end}`; };
    tell(', searching');
    try {
      const { messages } = await stream(kind, { ...parameters, ...this.#parameters(kind, text, path) }, (found) => {
        items.push(...found);
        list.grow();
        tell(', searching');
      }, { signal });
      this.place.append(...messageBoxes(messages));
      tell('');
    } catch (error) {
      if (error.name !== 'AbortError') this.place.prepend(errorBox(error, 'cannot search'));
      tell(error.name === 'AbortError' ? ', cancelled: the result is incomplete' : ', incomplete');
    }
    if (this.abort?.signal !== signal) return;
    list.isLoading = false;
    list.grow();
    this.cancel.hidden = true;
    announce(this.summary.textContent);
  }

  stop() {
    this.abort?.abort();
  }

  hide() {
    this.stop();
    this.abort = null;
    this.element.hidden = true;
    this.cancel.hidden = true;
  }
}
