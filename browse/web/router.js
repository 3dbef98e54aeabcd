// The state of the page in the fragment of its address: `#/VIEW/PATH?NAME=VALUE`.

import { percentDecode, percentEncode } from './paths.js';

export const VIEWS = ['disk', 'files', 'space', 'guest', 'changes'];
const SHARED = ['image', 'snapshot', 'volume', 'os'];

export function parse(fragment) {
  const [path, query = ''] = fragment.replace(/^#/, '').split('?', 2);
  const [, name = '', ...rest] = path.split('/');
  const parameters = new Map();
  for (const pair of query.split('&').filter(Boolean)) {
    const [key, value = ''] = pair.split('=', 2);
    parameters.set(percentDecode(key), percentDecode(value));
  }
  return {
    view: VIEWS.includes(name) ? name : 'disk',
    path: percentDecode(`/${rest.join('/')}`).replace(/(.)\/+$/, '$1'),
    parameters,
  };
}

export function build({ view, path = '/', parameters = new Map() }) {
  const query = [...parameters].filter(([, value]) => value !== '' && value !== undefined && value !== null)
    .map(([key, value]) => `${percentEncode(key)}=${percentEncode(String(value))}`).join('&');
  return `#/${view}${percentEncode(path, true)}${query ? `?${query}` : ''}`;
}

/** The fragment of another place; image, snapshot, volume and system stay the same unless they are given. */
export function linkTo(route, { view = route.view, path = '/', ...parameters }) {
  const all = new Map(SHARED.filter((key) => route.parameters.has(key)).map((key) => [key, route.parameters.get(key)]));
  for (const [key, value] of Object.entries(parameters)) all.set(key, value);
  return build({ view, path, parameters: all });
}

export const current = () => parse(location.hash);

export function go(fragment, { replace = false } = {}) {
  if (fragment === location.hash) return;
  if (replace) {
    history.replaceState(null, '', fragment);
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  } else location.hash = fragment;
}

/** The parameters of a request that select the image and what in it is shown. */
export function contextParameters(route, names = SHARED) {
  return Object.fromEntries(names.filter((key) => route.parameters.get(key)).map((key) => [key, route.parameters.get(key)]));
}

export const contextKey = (route) => SHARED.map((key) => route.parameters.get(key) ?? '').join('\0');
