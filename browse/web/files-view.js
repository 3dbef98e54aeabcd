// The view "Files": the tree of directories, the list of one of them, the details of a file, and the search.

import { address } from './api.js';
import { breadcrumbs } from './breadcrumbs.js';
import { el, field } from './dom.js';
import { FileDetails } from './file-details.js';
import { FileList } from './file-list.js';
import { FileTree } from './file-tree.js';
import { guarded } from './messages.js';
import { join, nameOf, parentOf, pathParameters } from './paths.js';
import { contextParameters, go, linkTo } from './router.js';
import { Search } from './search.js';

// Stands for the listed directory in the address; no file has this name.
const ITSELF = '.';

class FilesView {
  constructor(body, route) {
    this.route = route;
    this.abort = new AbortController();
    this.parameters = contextParameters(route);
    this.head = el('div', { class: 'files-head' });
    this.filter = el('input', { type: 'search', spellcheck: 'false', oninput: () => this.list.setFilter(this.filter.value) });
    this.tree = new FileTree(this.parameters, (path) => this.go({ path }), this.abort.signal);
    this.list = new FileList({
      onopen: (entry) => this.open(entry), onchoose: (entry) => this.choose(entry),
      onkey: (event) => this.key(event),
    });
    this.details = new FileDetails(() => this.closeDetails());
    this.search = new Search({
      onopen: (path) => this.go({ path: parentOf(path), select: nameOf(path) }),
      onsearch: (kind, text) => this.go({ path: this.route.path, [kind]: text }),
      onclose: () => this.go({ path: this.route.path }),
    });
    this.tar = el('a', { class: 'button', download: '' }, 'Download as tar');
    this.own = el('a', { class: 'button' }, 'Show its details');
    const toolbar = el('div', { class: 'toolbar' }, field('Filter', this.filter), this.own, this.tar);
    this.center = el('div', { class: 'files-center' }, toolbar, this.list.element);
    body.append(this.head, this.search.form, this.search.element,
      el('div', { class: 'files-split' }, el('div', { class: 'files-tree' }, this.tree.element), this.center, this.details.element));
    this.update(route);
  }

  go(place) {
    go(linkTo(this.route, { view: 'files', ...place }));
  }

  open(entry) {
    if (entry.type === 'directory') this.go({ path: join(this.route.path, entry.exactName) });
    else {
      this.choose(entry);
      this.details.element.focus();
    }
  }

  /** Chooses a file; a click on the name of a directory opens it. */
  choose(entry) {
    if (entry.type === 'directory') this.open(entry);
    else this.go({ path: this.route.path, select: entry.exactName });
  }

  key(event) {
    if (event.key !== 'Backspace' || this.route.path === '/') return false;
    this.go({ path: parentOf(this.route.path), select: nameOf(this.route.path) });
    return true;
  }

  closeDetails() {
    this.go({ path: this.route.path });
    this.list.list.element.focus();
  }

  update(route) {
    const isNewPath = this.path !== route.path;
    this.route = route;
    this.path = route.path;
    this.head.replaceChildren(breadcrumbs(route.path, (path) => linkTo(route, { path })));
    this.tar.href = address('tar', { ...this.parameters, ...pathParameters(route.path) });
    this.own.href = linkTo(route, { path: route.path, select: ITSELF });
    if (isNewPath) this.load(route.path);
    this.updateSearch(route);
    this.updateDetails(route);
  }

  updateSearch(route) {
    const kind = ['find', 'grep'].find((name) => route.parameters.has(name));
    if (kind) this.search.run(kind, route.parameters.get(kind), route.path, this.parameters);
    else this.search.hide();
  }

  updateDetails(route) {
    const selected = route.parameters.get('select');
    const path = selected === undefined ? null : selected === ITSELF ? route.path : join(route.path, selected);
    if (path === this.shown) return;
    this.shown = path;
    if (path === null) this.details.clear();
    else {
      this.details.show(path, route);
      this.list.select(selected);
    }
  }

  load(path) {
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    this.filter.value = '';
    this.list.filter = '';
    this.tree.show(path);
    return guarded(this.list.messages, 'cannot list the directory', async () => {
      const entries = await this.list.load(this.parameters, path, signal);
      this.tree.fill(path, entries.filter(({ type }) => type === 'directory').map(({ exactName }) => exactName));
      const selected = this.route.parameters.get('select');
      if (selected !== undefined) this.list.select(selected);
      performance.mark('list-ready');
    });
  }

  close() {
    this.abort.abort();
    this.loading?.abort();
    this.search.hide();
    this.details.stop();
  }
}

export const open = (body, route) => new FilesView(body, route);
