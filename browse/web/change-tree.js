// The tree of changed files: directories can be closed, and only the rows in sight are in the document.

import { appendRaw, el } from './dom.js';
import { size } from './format.js';
import { exact, nameOf } from './paths.js';
import { VirtualList } from './virtual-list.js';

const WORDS = { added: 'added', removed: 'removed', modified: 'changed' };

function makeNode(path, parent) {
  return { path, parent, level: parent ? parent.level + 1 : 0, children: new Map(), difference: null, isOpen: true, count: 0 };
}

export class ChangeTree {
  constructor(onchoose) {
    this.root = makeNode('/', null);
    this.list = new VirtualList({
      label: 'Changes', role: 'treegrid', empty: 'no differences', onchoose: (node, event) => this.#choose(node, event), onopen: (node) => this.#open(node),
      onkey: (event, node) => this.#key(event, node), decorate: (row, node) => this.#decorate(row, node),
      columns: [
        { title: 'Path', name: 'name', render: (node, cell) => this.#name(node, cell) },
        { title: 'Change', name: 'change', render: (node, cell) => cell.append(node.difference ? WORDS[node.difference.change] : `${node.count} below`) },
        { title: 'What', name: 'what', render: (node, cell) => appendRaw(cell, this.#what(node)) },
      ],
    });
    this.onchoose = onchoose;
    this.element = this.list.frame;
  }

  #what({ difference }) {
    if (!difference) return '';
    const side = difference.to ?? difference.from;
    return difference.what?.join(', ') ?? `${side?.type ?? ''}${side?.type === 'file' ? ` ${size(side.size_bytes)}` : ''}`;
  }

  #name(node, cell) {
    cell.style.paddingInlineStart = `${(node.level - 1) * 1.1 + 0.5}rem`;
    cell.append(el('span', { class: 'icon', 'aria-hidden': 'true' }, node.children.size ? (node.isOpen ? '▾' : '▸') : ''));
    const name = el('bdi', { class: 'raw' });
    appendRaw(name, nameOf(node.path));
    cell.append(name);
  }

  #decorate(row, node) {
    row.setAttribute('aria-level', node.level);
    if (node.children.size) row.setAttribute('aria-expanded', String(node.isOpen));
    if (node.difference) row.classList.add(`change-${node.difference.change}`);
  }

  add(differences) {
    for (const difference of differences) this.#add(difference);
    this.show();
  }

  #add(difference) {
    const path = exact(difference, 'path');
    let node = this.root;
    for (const name of path.split('/').filter(Boolean)) {
      node.count++;
      if (!node.children.has(name)) node.children.set(name, makeNode(node.path === '/' ? `/${name}` : `${node.path}/${name}`, node));
      node = node.children.get(name);
    }
    node.difference = difference;
  }

  show() {
    const rows = [];
    const visit = (node) => {
      if (node.level > 0) rows.push(node);
      if (node.isOpen) for (const child of node.children.values()) visit(child);
    };
    visit(this.root);
    const active = this.list.items[this.list.active];
    this.list.setItems(rows);
    if (active) this.list.active = rows.indexOf(active);
  }

  #toggle(node, isOpen) {
    if (!node.children.size) return;
    node.isOpen = isOpen;
    this.show();
    this.list.activate(this.list.items.indexOf(node));
  }

  #choose(node, event) {
    if (node.children.size && (event.target.closest?.('.icon') || !node.difference)) this.#toggle(node, !node.isOpen);
    else this.#open(node);
  }

  #open(node) {
    if (node.difference) this.onchoose(node.difference);
    else this.#toggle(node, !node.isOpen);
  }

  #key(event, node) {
    if (event.key === 'ArrowRight' && node.children.size && !node.isOpen) this.#toggle(node, true);
    else if (event.key === 'ArrowLeft' && node.isOpen && node.children.size) this.#toggle(node, false);
    else if (event.key === 'ArrowLeft' && node.parent?.level > 0) this.list.activate(this.list.items.indexOf(node.parent));
    else return event.key === 'ArrowRight';
    return true;
  }
}
