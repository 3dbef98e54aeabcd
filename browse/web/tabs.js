// Tabs of a view whose choice is a part of the address: links, the current one of which is marked.

import { el } from './dom.js';
import { linkTo } from './router.js';

export function tabs(route, label, names, current) {
  return el('nav', { 'aria-label': label, class: 'tabs' }, names.map(([name, title]) => el('a', {
    href: linkTo(route, { path: `/${name}` }), 'aria-current': name === current ? 'page' : null,
  }, title)));
}
