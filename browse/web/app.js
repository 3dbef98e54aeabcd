// Starts the page: it keeps the navigation, the choice of the image and the current view in step with the address.

import { controls } from './context.js';
import { button, el } from './dom.js';
import { errorBox } from './messages.js';
import { contextKey, current, linkTo, parse, VIEWS } from './router.js';

const TITLES = { disk: 'Disk', files: 'Files', space: 'Space', guest: 'Guest', changes: 'Changes' };
const main = document.getElementById('main');
let shown = { name: null, context: null, view: null };
let latest = 0;

function showNavigation(route) {
  const links = VIEWS.map((view) => el('a', {
    href: linkTo(route, { view }), 'aria-current': view === route.view ? 'page' : null,
  }, TITLES[view]));
  const place = document.getElementById('views');
  const focused = [...place.children].indexOf(document.activeElement);
  place.replaceChildren(...links);
  if (focused >= 0) links[focused].focus();
}

async function showControls(route, turn) {
  const place = document.getElementById('context');
  try {
    const made = await controls(route);
    if (turn !== latest) return;
    const focused = [...place.querySelectorAll('select')].indexOf(document.activeElement);
    place.replaceChildren(...made);
    if (focused >= 0) place.querySelectorAll('select')[focused]?.focus();
  } catch (error) {
    if (turn === latest) place.replaceChildren(errorBox(error, 'cannot list the volumes'), button('Retry', show));
  }
}

async function openView(route, turn) {
  shown.view?.close();
  shown = { name: null, context: null, view: null };
  const module = await import(`./${route.view}-view.js`);
  if (turn !== latest) return;
  const heading = el('h2', { tabindex: -1 }, TITLES[route.view]);
  const body = el('div', { class: `view ${route.view}-view` });
  main.replaceChildren(heading, body);
  document.title = `${TITLES[route.view]} - diskfs browse`;
  shown = { name: route.view, context: contextKey(route), view: module.open(body, route) };
}

async function show() {
  const turn = ++latest;
  const route = current();
  const wasShown = shown.name;
  showNavigation(route);
  showControls(route, turn);
  try {
    if (shown.name !== route.view || shown.context !== contextKey(route)) {
      await openView(route, turn);
      if (wasShown && wasShown !== route.view) main.querySelector('h2')?.focus();
    } else shown.view.update(route);
  } catch (error) {
    main.replaceChildren(errorBox(error, 'cannot show the view'));
  }
}

document.querySelector('.skip-link').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener('hashchange', show);
if (!location.hash.startsWith('#/')) history.replaceState(null, '', linkTo(parse(''), { view: 'disk' }));
show();
