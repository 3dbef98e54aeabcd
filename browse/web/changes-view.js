// The view "Changes": compares two images, snapshots, or an overlay with its backing file, and edits deploy plans.

import { el } from './dom.js';
import { Comparison } from './comparison.js';
import { PlanEditor } from './plan-editor.js';
import { tabs } from './tabs.js';

const PARTS = [['compare', 'Compare'], ['plan', 'Deploy plan']];

class ChangesView {
  constructor(body, route) {
    this.head = el('div');
    this.place = el('div');
    body.append(this.head, this.place);
    this.update(route);
  }

  update(route) {
    const name = route.path === '/plan' ? 'plan' : 'compare';
    if (this.name !== name) {
      this.part?.close();
      this.name = name;
      this.part = name === 'plan' ? new PlanEditor(route) : new Comparison(route);
      this.place.replaceChildren(this.part.element);
    }
    this.head.replaceChildren(tabs(route, 'Parts of the view', PARTS, name));
    this.part.update(route);
  }

  close() {
    this.part?.close();
  }
}

export const open = (body, route) => new ChangesView(body, route);
