// Edits a deploy plan as JSON: it lists the steps, checks the plan, shows its dry run as a diff, and applies it.

import { getDocument, post } from './api.js';
import { ChangePanel } from './change-panel.js';
import { forget, imageName, loadImages } from './context.js';
import { button, el, field, raw, visible } from './dom.js';
import { announce, errorBox, guarded, messageBoxes, noteBox } from './messages.js';
import { JsonError, parseJson, position } from './json-check.js';
import { example, SchemaCheck, steps } from './schema-check.js';
import { contextParameters } from './router.js';
import { StepList } from './step-list.js';

const EMPTY = '{\n  "steps": []\n}\n';
let draft = EMPTY;

/** Puts a step at the end of the plan in a text. */
function withStep(text, step) {
  const plan = JSON.parse(text);
  plan.steps = [...(Array.isArray(plan.steps) ? plan.steps : []), step];
  return `${JSON.stringify(plan, null, 2)}\n`;
}

function guestResult({ image, steps: reports, error }) {
  if (error) return [errorBox(error)];
  const list = reports.map(({ step, changed, notes, secrets }) => el('li', {}, el('strong', {}, step), ': ',
    changed.length ? raw(changed.join(', ')) : 'nothing to change',
    notes.length ? el('ul', {}, notes.map((note) => el('li', {}, raw(note)))) : null,
    secrets?.length ? el('ul', {}, secrets.map((secret) => el('li', {}, 'secret of ', raw(secret.of), ': ', el('code', {}, raw(secret.secret))))) : null));
  return [el('h3', {}, raw(image)), el('ul', {}, list)];
}

export class PlanEditor {
  constructor(route) {
    this.route = route;
    this.abort = new AbortController();
    this.text = el('textarea', { rows: 18, spellcheck: 'false', 'aria-describedby': 'plan-check' });
    this.text.value = draft;
    this.text.addEventListener('input', () => this.check());
    this.report = el('div', { id: 'plan-check', class: 'plan-check', role: 'status' });
    this.stepList = el('div');
    this.dryRun = button('Show the dry run', () => this.run(true), { disabled: true });
    this.apply = button('Apply', () => this.confirm(), { hidden: true, class: 'danger' });
    this.result = el('section', { class: 'plan-result', 'aria-label': 'Result', tabindex: -1 });
    this.changes = new ChangePanel();
    this.messages = el('div');
    this.dialog = el('dialog', { 'aria-label': 'Confirm' });
    this.element = el('div', {}, this.messages, el('div', { class: 'split plan-split' },
      el('div', {}, field('Plan (JSON)', this.text), this.report, el('div', { class: 'toolbar' }, this.dryRun, this.apply)), this.stepList), this.result, this.changes.element, this.dialog);
    guarded(this.messages, 'cannot load the schema of plans', () => this.#load());
  }

  async #load() {
    const [{ document: schema }, { writable }] = await Promise.all([getDocument('plan-schema', {}, { signal: this.abort.signal }), loadImages()]);
    this.schema = new SchemaCheck(schema);
    this.apply.hidden = !writable;
    if (!writable) this.apply.after(noteBox('Plans are only tried: to apply them, start `diskfs browse` with --write.'));
    this.stepList.append(new StepList(this.schema, steps(this.schema), (step) => this.insert(step)).element);
    this.check();
    performance.mark('plan-ready');
  }

  insert({ name, value }) {
    try {
      this.text.value = withStep(this.text.value, { [name]: example(this.schema, value) });
    } catch {
      this.#tell([{ offset: 0, message: 'cannot insert the step: the text is not valid JSON; correct it first' }]);
      return;
    }
    this.check();
    announce(`the step ${name} was inserted`);
  }

  #errors(text) {
    try {
      return this.schema.errors(parseJson(text));
    } catch (error) {
      if (error instanceof JsonError) return [error];
      throw error;
    }
  }

  check() {
    draft = this.text.value;
    if (!this.schema) return;
    const errors = this.#errors(this.text.value);
    this.#tell(errors);
    this.dryRun.disabled = errors.length > 0;
    this.apply.disabled = true;
  }

  #tell(errors) {
    const text = this.text.value;
    this.text.setAttribute('aria-invalid', String(errors.length > 0));
    if (!errors.length) {
      this.report.replaceChildren(el('p', { class: 'good' }, 'The plan is valid.'));
      return;
    }
    const items = errors.slice(0, 20).map(({ offset, message }) => {
      const { line, column } = position(text, offset);
      return el('li', {}, button(`line ${line}, column ${column}`, () => this.#goTo(offset), { class: 'link' }), ': ', raw(message));
    });
    this.report.replaceChildren(el('ul', { class: 'plain problems' }, items));
  }

  #goTo(offset) {
    this.text.focus();
    this.text.setSelectionRange(offset, offset + 1);
  }

  async run(isDryRun) {
    const parameters = contextParameters(this.route, ['image']);
    const plan = this.text.value;
    this.dryRun.disabled = true;
    this.apply.disabled = true;
    this.changes.clear();
    this.result.replaceChildren(noteBox(isDryRun ? 'Trying the plan.' : 'Applying the plan.'));
    try {
      const { document, messages } = await post('deploy', { ...parameters, dry_run: isDryRun ? 1 : '' }, plan, { signal: this.abort.signal });
      this.#showResult(document, messages, isDryRun);
      if (isDryRun) await this.changes.compare({ ...parameters, preview: 1 });
      if (isDryRun) this.apply.disabled = this.text.value !== plan;
      else forget();
    } catch (error) {
      if (error.name !== 'AbortError') this.result.replaceChildren(errorBox(error, isDryRun ? 'cannot try the plan' : 'cannot apply the plan'));
    }
    this.dryRun.disabled = this.#errors(this.text.value).length > 0;
    this.result.focus();
    performance.mark('plan-run');
  }

  #showResult({ guests }, messages, isDryRun) {
    const title = isDryRun ? 'What the plan would change' : 'What the plan changed';
    this.result.replaceChildren(el('h3', {}, title), ...messageBoxes(messages), ...guests.flatMap(guestResult));
    announce(title);
  }

  async confirm() {
    const name = await imageName(this.route);
    const cancel = button('Cancel', () => this.dialog.close());
    const go = button('Apply the plan', () => {
      this.dialog.close();
      this.run(false);
    }, { class: 'danger' });
    this.dialog.replaceChildren(el('p', {}, 'Change the image ', el('strong', {}, raw(visible(name))), ' as the dry run shows?'), el('div', { class: 'toolbar' }, cancel, go));
    this.dialog.showModal();
    cancel.focus();
  }

  update(route) {
    this.route = route;
  }

  close() {
    this.abort.abort();
    this.changes.close();
  }
}
