// The logs of a guest, with filters that the server applies.

import { stream } from './api.js';
import { appendRaw, button, el, field, raw, select } from './dom.js';
import { microseconds, plural } from './format.js';
import { announce, errorBox, messageBoxes } from './messages.js';
import { fromBytes } from './paths.js';
import { go, linkTo } from './router.js';
import { facts } from './table.js';
import { VirtualList } from './virtual-list.js';

const PRIORITIES = ['emerg', 'alert', 'crit', 'err', 'warning', 'notice', 'info', 'debug'];
const FILTERS = ['since', 'until', 'unit', 'priority', 'boot', 'grep', 'lines'];
const DEFAULT_LINES = '1000';

/** A field of a record: text, or bytes as numbers if it is not UTF-8. */
export function fieldText(value) {
  if (Array.isArray(value)) return typeof value[0] === 'number' ? fromBytes(Uint8Array.from(value)) : value.map(fieldText).join(', ');
  return value === null || value === undefined ? '' : String(value);
}

const source = (record) => fieldText(record._SYSTEMD_UNIT ?? record.SYSLOG_IDENTIFIER ?? record.LOG_FILE ?? '');
const priority = (record) => PRIORITIES[Number(record.PRIORITY)] ?? '';

const COLUMNS = [
  { title: 'Time (UTC)', name: 'time', render: (record, cell) => cell.append(microseconds(record.__REALTIME_TIMESTAMP).slice(0, 19)) },
  { title: 'Source', name: 'source', render: (record, cell) => appendRaw(cell, source(record)) },
  { title: 'Priority', name: 'mode', render: (record, cell) => cell.append(priority(record)) },
  { title: 'Message', name: 'line-text', render: (record, cell) => appendRaw(cell, fieldText(record.MESSAGE).slice(0, 600)) },
];

export class LogView {
  constructor(parameters, route) {
    this.parameters = parameters;
    this.list = new VirtualList({
      label: 'Log', columns: COLUMNS, empty: 'no record matches', onchoose: (record) => this.#show(record), onopen: (record) => this.#show(record),
      decorate: (row, record) => row.classList.toggle('urgent', record.PRIORITY !== undefined && Number(record.PRIORITY) <= 3),
    });
    this.inputs = this.#makeInputs();
    this.summary = el('p', { class: 'summary' });
    this.messages = el('div');
    this.details = el('section', { class: 'panel', 'aria-label': 'Record', 'aria-live': 'polite' }, el('p', { class: 'note' }, 'Choose a record to see its fields.'));
    this.cancel = button('Cancel', () => this.abort?.abort(), { hidden: true });
    this.element = el('div', { class: 'logs' }, this.#form(), this.messages, this.summary, el('div', { class: 'split' }, this.list.frame, this.details));
    this.update(route);
  }

  #makeInputs() {
    const text = (placeholder) => el('input', { type: 'text', placeholder, spellcheck: 'false' });
    return {
      since: text('2024-02-01 12:00'), until: text('-1h'), unit: text('ssh.service'),
      priority: select([['', 'any'], ...PRIORITIES.map((name) => [name, name])], '', () => {}),
      boot: select([['', 'any']], '', () => {}), grep: text('failed|error'),
      lines: select([['100', 'last 100'], [DEFAULT_LINES, 'last 1,000'], ['10000', 'last 10,000'], ['all', 'all']], DEFAULT_LINES, () => {}),
    };
  }

  #form() {
    const { since, until, unit, priority: urgency, boot, grep, lines } = this.inputs;
    const form = el('form', { class: 'toolbar', 'aria-label': 'Filters of the log' }, field('Since', since), field('Until', until), field('Unit', unit),
      field('Priority at least', urgency), field('Boot', boot), field('Text', grep), field('Records', lines),
      el('button', { type: 'submit' }, 'Show'), this.cancel);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#apply();
    });
    return form;
  }

  async #loadBoots() {
    try {
      await stream('boots', this.parameters, (boots) => {
        for (const { boot_id: id, index, first_entry: first } of boots) {
          const option = el('option', { value: id }, `${index}: ${microseconds(first).slice(0, 19)}`);
          this.inputs.boot.append(option);
        }
        this.inputs.boot.value = this.chosenBoot ?? '';
      });
      performance.mark('boots-ready');
    } catch { /* Without boots the filter offers only "any"; the log itself reports why it cannot be read. */ }
  }

  #apply() {
    const values = Object.fromEntries(FILTERS.map((name) => [name, this.inputs[name].value.trim()]));
    if (values.lines === DEFAULT_LINES) values.lines = '';
    const target = linkTo(this.route, { path: '/logs', ...values });
    if (target === location.hash) this.load();
    else go(target);
  }

  update(route) {
    this.route = route;
    for (const name of FILTERS) this.inputs[name].value = route.parameters.get(name) ?? (name === 'lines' ? DEFAULT_LINES : '');
    this.chosenBoot = route.parameters.get('boot');
    this.load();
  }

  #query() {
    const query = Object.fromEntries(FILTERS.map((name) => [name, this.route.parameters.get(name)]));
    query.lines = query.lines === 'all' ? '' : query.lines ?? DEFAULT_LINES;
    return { ...this.parameters, ...query, reverse: 1 };
  }

  async load() {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const records = [];
    this.list.isLoading = true;
    this.list.setItems(records);
    this.messages.replaceChildren();
    this.cancel.hidden = false;
    let end = '';
    try {
      const { messages } = await stream('log', this.#query(), (batch) => {
        records.push(...batch);
        this.list.grow();
        this.summary.textContent = `${plural(records.length, 'record')}, loading`;
      }, { signal });
      this.messages.append(...messageBoxes(messages));
      this.boots ??= this.#loadBoots();
    } catch (error) {
      end = ': incomplete';
      if (error.name !== 'AbortError') this.messages.append(errorBox(error, 'cannot read the log'));
    }
    if (this.abort.signal !== signal) return;
    this.cancel.hidden = true;
    this.list.isLoading = false;
    this.list.grow();
    this.summary.textContent = `${plural(records.length, 'record')}, newest first${end}`;
    announce(this.summary.textContent);
    performance.mark('log-ready');
  }

  #show(record) {
    const rows = Object.entries(record).filter(([name]) => name !== 'MESSAGE').map(([name, value]) => [raw(name), fieldText(value)]);
    this.details.replaceChildren(el('h3', {}, 'Record'), el('pre', { class: 'text', tabindex: 0 }, raw(fieldText(record.MESSAGE), { lines: true })),
      facts([['Time', microseconds(record.__REALTIME_TIMESTAMP)], ...rows]));
  }

  close() {
    this.abort?.abort();
  }
}
