// Compares the image with another state: the form that chooses both sides, and the changes.

import { ChangePanel } from './change-panel.js';
import { loadImages, loadInfo } from './context.js';
import { el, field, select, visible } from './dom.js';
import { guarded, noteBox } from './messages.js';
import { pathParameters } from './paths.js';
import { contextParameters, go, linkTo } from './router.js';

const query = (parameters) => String(new URLSearchParams(parameters));

function snapshotChoices(names) {
  const shown = (name) => visible(name);
  return [
    ...names.map((name) => [query({ from_snapshot: name }), `the snapshot ${shown(name)} with the current state`]),
    ...names.flatMap((from) => names.filter((to) => to !== from)
      .map((to) => [query({ from_snapshot: from, to_snapshot: to }), `the snapshot ${shown(from)} with ${shown(to)}`])),
  ];
}

/** The pairs that can be compared, as `[value, text]`. The value is the query of the request without its path. */
function choices(info, images, route) {
  const index = route.parameters.get('image') || '0';
  const names = (info.image.qcow2?.snapshots ?? []).map(({ name, id }) => name || id);
  const others = images.map(({ name }, other) => [`other=${other}`, `this image with ${visible(name)}`]);
  return [
    ...(info.image.backing ? [['backing=1', 'the backing file with this image']] : []),
    ...snapshotChoices(names), ...others.filter((_, other) => String(other) !== index),
  ];
}

export class Comparison {
  constructor(route) {
    this.route = route;
    this.form = el('form', { class: 'toolbar', 'aria-label': 'What to compare' });
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      go(linkTo(this.route, { path: '/compare', with: this.choice.value, below: this.below.value }));
    });
    this.messages = el('div');
    this.panel = new ChangePanel();
    this.element = el('div', {}, this.form, this.messages, this.panel.element);
    this.ready = guarded(this.messages, 'cannot list what can be compared', () => this.#makeForm());
  }

  async #makeForm() {
    const [{ document: info }, { images }] = await Promise.all([loadInfo(this.route), loadImages()]);
    const options = choices(info, images, this.route);
    if (!options.length) {
      this.form.replaceChildren(noteBox('There is nothing to compare with: the image has no snapshot and no backing file. Start `diskfs browse` with a second image.'));
      return;
    }
    this.choice = select(options, options[0][0], () => {});
    this.below = el('input', { type: 'text', value: '/', spellcheck: 'false' });
    this.form.replaceChildren(field('Compare', this.choice), field('below', this.below), el('button', { type: 'submit' }, 'Compare'));
  }

  async update(route) {
    this.route = route;
    const wanted = route.parameters.get('with');
    const below = route.parameters.get('below') || '/';
    await this.ready;
    if (!this.choice || this.route !== route || this.isClosed) return;
    if (wanted === undefined) this.panel.clear();
    else {
      this.choice.value = wanted;
      this.below.value = below;
      if (wanted !== this.wanted || below !== this.compared) {
        this.panel.compare({ ...contextParameters(route), ...Object.fromEntries(new URLSearchParams(wanted)), ...pathParameters(below) });
      }
    }
    this.wanted = wanted;
    this.compared = below;
  }

  close() {
    this.isClosed = true;
    this.panel.close();
  }
}
