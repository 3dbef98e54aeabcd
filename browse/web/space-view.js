// The view "Space": what uses the space of a filesystem, as treemap or sunburst and as a table, drawn while it is read.

import { getDocument, stream } from './api.js';
import { breadcrumbs } from './breadcrumbs.js';
import { Chart } from './chart.js';
import { loadInfo } from './context.js';
import { button, el, raw } from './dom.js';
import { count, exactSize, size } from './format.js';
import { announce, guarded, messageBoxes } from './messages.js';
import { parentOf, pathParameters } from './paths.js';
import { build, contextParameters, go, linkTo } from './router.js';
import { parts, SpaceTree } from './space-tree.js';
import { grid } from './table.js';

const REDRAW = 250;

class SpaceView {
  constructor(body, route) {
    this.route = route;
    this.abort = new AbortController();
    this.parameters = contextParameters(route);
    this.tree = new SpaceTree();
    this.path = null;
    this.head = el('div');
    this.progress = el('progress', { max: 1, value: 0, 'aria-label': 'Progress of the walk' });
    this.progressText = el('span', { class: 'note' });
    this.cancel = button('Cancel', () => this.stop());
    this.kinds = [['treemap', 'Treemap'], ['sunburst', 'Sunburst']].map(([kind, title]) => button(title, () => this.choose(kind), { 'data-kind': kind }));
    this.chart = new Chart({ onopen: (node) => this.openNode(node), onup: () => this.up(), onpoint: (item, total) => this.describe(item, total) });
    this.pointed = el('p', { class: 'pointed' });
    this.table = el('div');
    this.messages = el('div');
    body.append(
      el('div', { class: 'toolbar' }, el('div', { class: 'choice', role: 'group', 'aria-label': 'Chart' }, this.kinds), this.progress, this.progressText, this.cancel),
      this.head, this.messages, el('div', { class: 'split' }, el('div', {}, this.chart.element, this.pointed), this.table));
    this.update(route);
    guarded(this.messages, 'cannot measure the space', () => this.walk());
  }

  stop() {
    this.abort.abort();
    this.cancel.hidden = true;
    this.progressText.textContent += ' Cancelled: the sizes are incomplete.';
  }

  async loadUsed() {
    const volume = this.parameters.volume ?? await this.rootVolume();
    const { document } = await getDocument('df', contextParameters(this.route, ['image', 'snapshot']), { signal: this.abort.signal });
    this.used = document.filesystems.find((filesystem) => filesystem.volume === volume)?.used_bytes;
    this.showProgress();
  }

  /** The volume of the directory that is walked: the only one, or that of the guest's root. */
  async rootVolume() {
    const { document: info } = await loadInfo(this.route);
    const readable = info.filesystems.filter((filesystem) => filesystem.readable);
    if (readable.length === 1) return readable[0].volume;
    const { document } = await getDocument('inspect', contextParameters(this.route, ['image', 'snapshot', 'os']), { signal: this.abort.signal });
    return document.systems[0]?.volume;
  }

  async walk() {
    guarded(this.messages, 'cannot read the usage', () => this.loadUsed());
    this.isWalking = true;
    const { messages } = await stream('du', { ...this.parameters, path: '/' }, (entries) => {
      for (const entry of entries) this.tree.add(entry);
      this.scheduleDraw();
    }, { signal: this.abort.signal }).finally(() => { this.isWalking = false; });
    this.messages.append(...messageBoxes(messages));
    this.cancel.hidden = true;
    this.progress.hidden = true;
    this.draw();
    this.loadFiles();
    announce('all directories are measured');
    performance.mark('space-ready');
  }

  scheduleDraw() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      if (this.isWalking) this.draw();
    }, REDRAW);
  }

  showProgress() {
    const { bytes, inodes } = this.tree.root;
    if (this.used) this.progress.value = Math.min(1, bytes / this.used);
    this.progressText.textContent = `${size(bytes)}${this.used ? ` of ${size(this.used)} used` : ''}, ${count(inodes)} files`;
  }

  draw() {
    this.showProgress();
    const node = this.tree.get(this.path) ?? this.tree.root;
    this.chart.draw(node, this.kind);
    const rows = parts(node, 200);
    const name = (item) => (item.node && !item.node.isFile
      ? el('a', { href: linkTo(this.route, { path: item.node.path, chart: this.kind }) }, raw(item.name)) : raw(item.name));
    const focused = this.table.contains(document.activeElement) ? document.activeElement.closest('a')?.getAttribute('href') : null;
    this.table.replaceChildren(grid(rows, [
      ['Name', name], ['Size', (item) => size(item.bytes), 'number'],
      ['Share', (item) => `${(100 * item.bytes / (node.bytes || 1)).toFixed(1)} %`, 'number'],
      ['Files', (item) => (item.node ? count(item.node.inodes) : ''), 'number'],
    ], 'Parts of the directory'));
    if (focused) [...this.table.querySelectorAll('a')].find((link) => link.getAttribute('href') === focused)?.focus();
  }

  describe(item, total) {
    this.pointed.replaceChildren(raw(item.node?.path ?? item.name), `: ${exactSize(item.bytes)}, ${(100 * item.bytes / (total || 1)).toFixed(1)} %`);
  }

  openNode(node) {
    if (node.isFile) go(linkTo(this.route, { view: 'files', path: parentOf(node.path), select: node.name }));
    else go(linkTo(this.route, { path: node.path, chart: this.kind }));
  }

  up() {
    if (this.path !== '/') go(linkTo(this.route, { path: parentOf(this.path), chart: this.kind }));
  }

  choose(kind) {
    const parameters = new Map(this.route.parameters).set('chart', kind);
    go(build({ view: 'space', path: this.route.path, parameters }));
  }

  async loadFiles() {
    const { path } = this;
    if (this.isWalking || this.tree.get(path)?.hasFiles !== undefined) return;
    const files = [];
    await guarded(this.messages, 'cannot list the files', () => stream('ls', { ...this.parameters, ...pathParameters(path) },
      (entries) => files.push(...entries), { signal: this.abort.signal }));
    this.tree.addFiles(path, files);
    if (this.path === path) this.draw();
  }

  update(route) {
    this.route = route;
    this.path = route.path;
    this.kind = route.parameters.get('chart') === 'sunburst' ? 'sunburst' : 'treemap';
    for (const kind of this.kinds) kind.setAttribute('aria-pressed', String(kind.dataset.kind === this.kind));
    this.head.replaceChildren(breadcrumbs(route.path, (path) => linkTo(route, { path, chart: this.kind })));
    this.draw();
    this.loadFiles();
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
  }
}

export const open = (body, route) => new SpaceView(body, route);
