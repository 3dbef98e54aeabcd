// The path of a directory as links to each of its parents.

import { el, raw } from './dom.js';
import { ancestors, nameOf } from './paths.js';

export function breadcrumbs(path, linkOf) {
  const all = ancestors(path);
  const items = all.map((ancestor, index) => el('li', {}, el('a', {
    href: linkOf(ancestor), 'aria-current': index === all.length - 1 ? 'location' : null,
  }, index === 0 ? '/' : raw(nameOf(ancestor)))));
  return el('nav', { 'aria-label': 'Path', class: 'breadcrumbs' }, el('ol', {}, items));
}
