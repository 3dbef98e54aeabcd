// The frame of treemap and sunburst: a list of options for the keyboard and screen readers, drawn as SVG.

import { el, svg, uniqueId, visible } from './dom.js';
import { plural, size } from './format.js';
import { center, sunburst } from './sunburst.js';
import { HEIGHT, treemap, WIDTH } from './treemap.js';

const percent = (part, whole) => `${(100 * part / (whole || 1)).toFixed(1)} %`;

export class Chart {
  /** `onopen(node)` zooms in, `onup()` zooms out, `onpoint(item, total)` describes an item. */
  constructor({ onopen, onup, onpoint }) {
    Object.assign(this, { onopen, onup, onpoint });
    this.items = [];
    this.active = -1;
    this.canvas = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'presentation', class: 'chart' });
    this.element = el('div', { role: 'listbox', tabindex: 0, class: 'chart-frame', 'aria-label': 'Space used by the parts of the directory' }, this.canvas);
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.element.addEventListener('click', (event) => {
      const index = this.#indexOf(event);
      if (index < 0) return;
      this.activate(index);
      this.#open(index);
    });
    this.element.addEventListener('pointerover', (event) => {
      const index = this.#indexOf(event);
      if (index >= 0) this.onpoint(this.items[index].item, this.node.bytes);
    });
  }

  #indexOf(event) {
    return this.items.findIndex(({ option }) => option.contains(event.target));
  }

  #key(event) {
    const last = this.items.length - 1;
    const moves = { ArrowRight: this.active + 1, ArrowDown: this.active + 1, ArrowLeft: this.active - 1, ArrowUp: this.active - 1, Home: 0, End: last };
    if (event.key in moves) this.activate(Math.max(0, Math.min(last, moves[event.key])));
    else if (event.key === 'Enter') this.#open(this.active);
    else if (event.key === 'Backspace' || event.key === 'Escape') this.onup();
    else return;
    event.preventDefault();
  }

  #open(index) {
    const node = this.items[index]?.item.node;
    if (node) this.onopen(node);
  }

  activate(index) {
    this.items[this.active]?.option.setAttribute('aria-selected', 'false');
    this.active = index;
    const chosen = this.items[index];
    if (!chosen) return;
    chosen.option.setAttribute('aria-selected', 'true');
    this.element.setAttribute('aria-activedescendant', chosen.option.id);
    this.onpoint(chosen.item, this.node.bytes);
  }

  draw(node, kind) {
    const chosen = this.node === node ? this.items[this.active]?.item.node : null;
    this.node = node;
    this.items = kind === 'treemap' ? treemap(node) : sunburst(node);
    for (const entry of this.items) {
      const { item } = entry;
      const text = `${visible(item.name)}: ${size(item.bytes)}, ${percent(item.bytes, node.bytes)}${item.node && !item.node.isFile ? `, ${plural(item.node.inodes, 'file')}` : ''}`;
      entry.option = svg('g', { role: 'option', id: uniqueId('part'), 'aria-selected': 'false', 'aria-label': text, class: 'chart-option' }, entry.shape);
    }
    this.canvas.replaceChildren(...this.items.map(({ option }) => option), ...(kind === 'sunburst' ? [center(node)] : []));
    this.active = -1;
    this.element.removeAttribute('aria-activedescendant');
    if (chosen) this.activate(this.items.findIndex(({ item }) => item.node === chosen));
  }
}
