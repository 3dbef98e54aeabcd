// Shows the answer of `diff`: the tree of changes, and the details of a chosen file with its text side by side.

import { getDocument, stream } from './api.js';
import { ChangeTree } from './change-tree.js';
import { diffElements } from './diff-view.js';
import { button, el, raw } from './dom.js';
import { exactSize, modeLetters, time, type } from './format.js';
import { announce, errorBox, guarded, messageBoxes, noteBox } from './messages.js';
import { exact } from './paths.js';
import { grid } from './table.js';

const FIELDS = [
  ['Type', (file) => type(file.type)], ['Mode', (file) => `${file.mode} ${modeLetters(file.type, file.mode)}`], ['Owner', (file) => `${file.uid}:${file.gid}`],
  ['Size', (file) => exactSize(file.size_bytes)], ['Modified', (file) => time(file.modified)], ['Changed', (file) => time(file.changed)],
  ['Target', (file) => (file.target ? exact(file, 'target') : '')],
];

/** The table with a file's metadata on both sides; what differs is marked. */
function sides({ from, to }) {
  const rows = FIELDS.map(([name, value]) => ({ name, from: from ? value(from) : '', to: to ? value(to) : '' })).filter((row) => row.from || row.to);
  const show = (side) => (row) => (from && to && row.from !== row.to ? el('mark', {}, raw(row[side])) : row[side]);
  return grid(rows, [['Field', (row) => row.name], ['Before', show('from')], ['After', show('to')]], 'Before and after');
}

const hasText = ({ from, to, what }) => [from?.type, to?.type].includes('file')
  && (!what || what.some((name) => name === 'content' || name === 'size' || name === 'type'));

export class ChangePanel {
  constructor() {
    this.cancel = button('Cancel', () => this.abort?.abort(), { hidden: true });
    this.summary = el('p', { class: 'summary' });
    this.messages = el('div');
    this.place = el('div');
    this.details = el('section', { class: 'panel wide-panel', 'aria-label': 'Changed file', tabindex: -1 });
    this.element = el('div', {}, this.messages, el('div', { class: 'toolbar' }, this.summary, this.cancel), this.place, this.details);
  }

  clear() {
    this.close();
    for (const part of [this.messages, this.place, this.details]) part.replaceChildren();
    this.summary.textContent = '';
    this.cancel.hidden = true;
  }

  /** Shows the differences that the request with these parameters gives. */
  async compare(parameters) {
    this.clear();
    this.parameters = parameters;
    this.abort = new AbortController();
    const { signal } = this.abort;
    const tree = new ChangeTree((difference) => this.#showFile(difference));
    this.place.append(tree.element);
    this.summary.textContent = 'Comparing.';
    this.cancel.hidden = false;
    try {
      const { document, messages } = await stream('diff', parameters, (differences) => tree.add(differences), { signal });
      if (this.abort.signal !== signal) return;
      tree.show();
      const { added, removed, modified, same } = document.counts;
      this.messages.append(...messageBoxes(messages));
      this.summary.textContent = `${added} added, ${removed} removed, ${modified} changed, ${same} the same`;
    } catch (error) {
      if (this.abort.signal !== signal) return;
      this.summary.textContent = 'The result is incomplete.';
      if (error.name !== 'AbortError') this.messages.append(errorBox(error, 'cannot compare'));
    }
    this.cancel.hidden = true;
    announce(this.summary.textContent);
    performance.mark('changes-ready');
  }

  #showFile(difference) {
    this.fileAbort?.abort();
    this.fileAbort = new AbortController();
    const path = exact(difference, 'path');
    const place = el('div', { class: 'diff-place' });
    this.details.replaceChildren(el('h3', {}, raw(path)), place, sides(difference));
    this.details.focus();
    if (hasText(difference)) guarded(place, 'cannot show the text', () => this.#loadText(place, path, this.fileAbort.signal));
  }

  async #loadText(place, path, signal) {
    const { document } = await getDocument('diff', { ...this.parameters, only: path.toWellFormed(), unified: 3 }, { signal });
    const difference = document.differences.find((candidate) => exact(candidate, 'path') === path);
    if (difference?.unified) place.append(...diffElements(difference.unified));
    else place.append(noteBox('No text is shown: the contents are binary or large, or the name is not valid UTF-8.'));
    performance.mark('diff-ready');
  }

  close() {
    this.abort?.abort();
    this.fileAbort?.abort();
  }
}
