// The tree of directories beside the list. A directory is read when it is opened.

import { stream } from './api.js';
import { el, raw, visible } from './dom.js';
import { errorBox } from './messages.js';
import { ancestors, exact, nameOf, pathParameters } from './paths.js';

export class FileTree {
  /** `parameters` selects the image; `onopen(path)` is called for a chosen directory. */
  constructor(parameters, onopen, signal) {
    Object.assign(this, { parameters, onopen, signal });
    this.nodes = new Map();
    this.element = el('ul', { role: 'tree', 'aria-label': 'Directories', class: 'tree' });
    this.element.addEventListener('click', (event) => this.#click(event));
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.#add(this.element, '/', 1);
    this.nodes.get('/').item.tabIndex = 0;
  }

  #add(list, path, level) {
    const group = el('ul', { role: 'group' });
    const label = el('span', { class: 'tree-label' }, el('span', { class: 'twisty', 'aria-hidden': 'true' }), raw(nameOf(path)));
    const item = el('li', { role: 'treeitem', tabindex: -1, 'aria-expanded': 'false', 'aria-level': level, 'aria-selected': 'false', 'aria-label': visible(nameOf(path)) }, label);
    list.append(item);
    this.nodes.set(path, { path, item, group, level, request: null });
    item.node = this.nodes.get(path);
  }

  /** Fills in subdirectories that were read elsewhere. */
  fill(path, names) {
    const node = this.nodes.get(path);
    if (!node || node.request) return;
    node.request = Promise.resolve();
    this.#addChildren(node, names);
  }

  #addChildren(node, names) {
    for (const name of names) {
      const path = node.path === '/' ? `/${name}` : `${node.path}/${name}`;
      if (!this.nodes.has(path)) this.#add(node.group, path, node.level + 1);
    }
    if (!node.group.children.length) node.item.removeAttribute('aria-expanded');
    else if (!node.group.isConnected) node.item.append(node.group);
  }

  #load(node) {
    const parameters = { ...this.parameters, ...pathParameters(node.path), type: 'd', depth: 1 };
    node.request ??= stream('find', parameters, (entries) => {
      this.#addChildren(node, entries.map((entry) => exact(entry, 'path')).filter((path) => path !== node.path).map(nameOf).sort());
    }, { signal: this.signal }).then(() => this.#addChildren(node, []), (error) => {
      if (error.name === 'AbortError') return;
      node.request = null;
      node.group.replaceChildren(el('li', { role: 'none' }, errorBox(error)));
      node.item.append(node.group);
    });
    return node.request;
  }

  async expand(node) {
    node.item.setAttribute('aria-expanded', 'true');
    await this.#load(node);
  }

  collapse(node) {
    if (node.item.hasAttribute('aria-expanded')) node.item.setAttribute('aria-expanded', 'false');
  }

  /** Opens the tree up to a directory, and marks it as the current one. */
  async show(path) {
    this.current = path;
    for (const ancestor of ancestors(path)) {
      const node = this.nodes.get(ancestor);
      if (!node || this.current !== path) return;
      if (ancestor === path) this.#select(node);
      else await this.expand(node);
    }
  }

  #select(node) {
    for (const other of this.element.querySelectorAll('[aria-selected="true"]')) other.setAttribute('aria-selected', 'false');
    node.item.setAttribute('aria-selected', 'true');
    this.#rove(node.item, false);
    const label = node.item.firstElementChild;
    if (label.offsetTop < this.element.scrollTop || label.offsetTop > this.element.scrollTop + this.element.clientHeight) {
      this.element.scrollTop = label.offsetTop - this.element.clientHeight / 2;
    }
  }

  #rove(item, hasFocus = true) {
    for (const other of this.element.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    item.tabIndex = 0;
    if (hasFocus) item.focus();
  }

  #click(event) {
    const item = event.target.closest('[role="treeitem"]');
    if (!item) return;
    this.#rove(item);
    if (event.target.closest('.twisty')) {
      if (item.getAttribute('aria-expanded') === 'true') this.collapse(item.node);
      else this.expand(item.node);
    } else {
      this.expand(item.node);
      this.onopen(item.node.path);
    }
  }

  #visibleItems() {
    return [...this.element.querySelectorAll('[role="treeitem"]')].filter((item) => item.offsetParent !== null);
  }

  #key(event) {
    const item = event.target.closest('[role="treeitem"]');
    if (!item) return;
    const items = this.#visibleItems();
    const index = items.indexOf(item);
    const isOpen = item.getAttribute('aria-expanded') === 'true';
    const parent = item.parentElement.closest('[role="treeitem"]');
    const actions = {
      ArrowDown: () => items[index + 1] && this.#rove(items[index + 1]),
      ArrowUp: () => items[index - 1] && this.#rove(items[index - 1]),
      Home: () => this.#rove(items[0]),
      End: () => this.#rove(items.at(-1)),
      ArrowRight: () => (isOpen ? items[index + 1] && this.#rove(items[index + 1]) : this.expand(item.node)),
      ArrowLeft: () => (isOpen ? this.collapse(item.node) : parent && this.#rove(parent)),
      Enter: () => { this.expand(item.node); this.onopen(item.node.path); },
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }
}
