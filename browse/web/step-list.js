// The list of the steps that a plan can have, with their keys and a button that inserts each.

import { button, el, field } from './dom.js';
import { keysOf } from './schema-check.js';

function keyItems(check, step) {
  return keysOf(check, step.value).map(({ name, isRequired, description }) => [
    el('dt', {}, el('code', {}, name), isRequired ? ' (required)' : ''), el('dd', {}, description),
  ]).flat();
}

function stepElement(check, step, oninsert) {
  const keys = keyItems(check, step);
  const own = check.resolve(step.value)?.description ?? '';
  const details = el('details', {}, el('summary', {}, el('code', {}, step.name), ` ${step.description}`),
    el('p', {}, own), keys.length ? el('dl', {}, keys) : null);
  return el('li', {}, details, button('Insert', () => oninsert(step), { 'aria-label': `Insert the step ${step.name}` }));
}

export class StepList {
  constructor(check, steps, oninsert) {
    const items = steps.map((step) => ({ step, element: stepElement(check, step, oninsert) }));
    const filter = el('input', { type: 'search', spellcheck: 'false' });
    filter.addEventListener('input', () => {
      const wanted = filter.value.toLowerCase();
      for (const { step, element } of items) element.hidden = !`${step.name} ${step.description}`.toLowerCase().includes(wanted);
    });
    this.element = el('section', { class: 'steps', 'aria-label': 'Steps' }, field('Find a step', filter),
      el('ul', { class: 'plain', tabindex: 0, 'aria-label': 'Steps of plans' }, items.map(({ element }) => element)));
  }
}
