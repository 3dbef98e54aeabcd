// The tree of directories with their sizes, built while `du` still walks: a directory arrives after its contents, and
// until then counts what is known of them.

import { exact, join, nameOf, parentOf } from './paths.js';

class Node {
  constructor(path, parent) {
    this.path = path;
    this.parent = parent;
    this.bytes = 0;
    this.inodes = 0;
    this.isComplete = false;
    this.children = new Map();
    this.isFile = false;
  }

  get name() {
    return nameOf(this.path);
  }
}

export class SpaceTree {
  constructor() {
    this.root = new Node('/', null);
    this.nodes = new Map([['/', this.root]]);
  }

  get(path) {
    return this.nodes.get(path);
  }

  #make(path) {
    const known = this.nodes.get(path);
    if (known) return known;
    const parent = this.#make(parentOf(path));
    const node = new Node(path, parent);
    parent.children.set(node.name, node);
    this.nodes.set(path, node);
    return node;
  }

  add(entry) {
    const node = this.#make(exact(entry, 'path'));
    const bytes = entry.allocated_bytes - node.bytes;
    const inodes = entry.inodes - node.inodes;
    node.isComplete = true;
    for (let at = node; at && (at === node || !at.isComplete); at = at.parent) {
      at.bytes += bytes;
      at.inodes += inodes;
    }
  }

  /** Adds the files of a directory, which `du` does not list. */
  addFiles(path, entries) {
    const node = this.nodes.get(path);
    if (!node || node.hasFiles) return;
    node.hasFiles = true;
    for (const entry of entries) {
      const name = exact(entry, 'name');
      if (entry.type === 'directory' || node.children.has(name)) continue;
      const file = new Node(join(path, name), node);
      Object.assign(file, { bytes: entry.allocated_bytes, inodes: 1, isComplete: true, isFile: true });
      node.children.set(name, file);
    }
  }
}

/** The children of a directory from the largest on; what they do not add up to is a last item without a node. */
export function parts(node, limit = 200) {
  const sorted = [...node.children.values()].filter(({ bytes }) => bytes > 0).sort((a, b) => b.bytes - a.bytes);
  const shown = sorted.slice(0, limit).map((child) => ({ node: child, bytes: child.bytes, name: child.name }));
  const rest = sorted.slice(limit).reduce((sum, child) => sum + child.bytes, 0);
  if (rest > 0) shown.push({ node: null, bytes: rest, name: `${sorted.length - limit} smaller ones` });
  const own = node.bytes - sorted.reduce((sum, child) => sum + child.bytes, 0);
  if (own > 0 && node.children.size) shown.push({ node: null, bytes: own, name: node.hasFiles ? 'directory itself' : 'files in it' });
  return shown;
}
