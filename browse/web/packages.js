// The installed packages of a guest, with a search box.

import { appendRaw, el, field } from './dom.js';
import { plural } from './format.js';
import { noteBox } from './messages.js';
import { VirtualList } from './virtual-list.js';

const column = (title, key, name) => ({ title, name, render: (item, cell) => appendRaw(cell, item[key] ?? '') });

const COLUMNS = [column('Name', 'name', 'name'), column('Version', 'version', 'version'), column('Architecture', 'architecture', 'mode'), column('Summary', 'summary', 'line-text')];

/** Programs of Windows in the form of packages. */
const programs = (system) => (system.windows?.programs ?? []).map((program) => ({
  name: program.name, version: program.version, architecture: program.architecture, summary: program.description ?? program.publisher,
}));

export class PackageView {
  constructor(system) {
    this.all = system.packages.installed ?? programs(system);
    this.texts = this.all.map(({ name, version, summary }) => `${name} ${version ?? ''} ${summary ?? ''}`.toLowerCase());
    this.list = new VirtualList({ label: 'Packages', columns: COLUMNS, empty: 'no package matches' });
    this.summary = el('p', { class: 'summary', role: 'status' });
    const input = el('input', { type: 'search', spellcheck: 'false', oninput: () => this.filter(input.value) });
    this.element = el('section', { class: 'packages', 'aria-label': 'Packages' },
      system.packages.installed === null && !this.all.length ? noteBox('The package database could not be read; the part "System" lists the problems.') : null,
      el('div', { class: 'toolbar' }, field('Filter', input)), this.summary, this.list.frame);
    this.filter('');
  }

  filter(text) {
    const wanted = text.toLowerCase();
    const shown = this.all.filter((_, index) => this.texts[index].includes(wanted));
    this.list.setItems(shown);
    this.summary.textContent = shown.length === this.all.length
      ? plural(this.all.length, 'package') : `${shown.length} of ${plural(this.all.length, 'package')}`;
  }
}
