// The view "Guest": the report on the operating system, its packages, and its logs.

import { address, getDocument, stream } from './api.js';
import { el, raw } from './dom.js';
import { bootSection, report } from './guest-report.js';
import { LogView } from './logs.js';
import { guarded, messageBoxes, noteBox } from './messages.js';
import { PackageView } from './packages.js';
import { contextParameters, linkTo } from './router.js';
import { tabs } from './tabs.js';

const PARTS = [['system', 'System'], ['packages', 'Packages'], ['logs', 'Logs']];
const IMAGE_PARAMETERS = ['image', 'snapshot', 'os'];

class GuestView {
  constructor(body, route) {
    this.abort = new AbortController();
    this.parameters = contextParameters(route, IMAGE_PARAMETERS);
    this.head = el('div');
    this.place = el('div', { class: 'guest-part' });
    body.append(this.head, this.place);
    this.update(route);
  }

  /** The answer of `inspect`; with packages it is requested only when they are shown. */
  inspect(packages) {
    const key = packages ? 'withPackages' : 'system';
    this[key] ??= getDocument('inspect', { ...this.parameters, packages: packages ? 1 : '' }, { signal: this.abort.signal });
    this[key].catch(() => { this[key] = undefined; });
    return this[key];
  }

  update(route) {
    const part = PARTS.find(([name]) => route.path === `/${name}`)?.[0] ?? 'system';
    this.route = route;
    if (part === this.part && part !== 'logs') return;
    this.head.replaceChildren(tabs(route, 'Parts of the report', PARTS, part));
    if (part === 'logs' && this.part === 'logs') {
      this.logs.update(route);
      return;
    }
    this.part = part;
    this.logs?.close();
    this.logs = null;
    this.place.replaceChildren(noteBox('Reading the guest.'));
    guarded(this.place, 'cannot inspect the guest', () => this.show(part));
  }

  async show(part) {
    if (part === 'logs') {
      this.logs = new LogView(this.parameters, this.route);
      this.place.replaceChildren(this.logs.element);
      return;
    }
    const { document, messages } = await this.inspect(part === 'packages').finally(() => this.part === part && this.place.replaceChildren());
    if (this.part !== part) return;
    this.place.append(...messageBoxes(messages));
    if (!document.systems.length) this.place.append(noteBox('No operating system was found.'));
    for (const [index, system] of document.systems.entries()) this.showSystem(part, system, index, document.systems);
    performance.mark('guest-ready');
    const hasLogs = document.systems.some(({ activity }) => activity.last_boot || activity.last_log);
    if (part === 'system' && hasLogs) await this.showBoots();
  }

  showSystem(part, system, index, systems) {
    if (systems.length > 1) this.place.append(this.systemHead(system, index));
    if (part === 'system') this.place.append(...report(system));
    else this.place.append(this.downloads(), new PackageView(system).element);
  }

  async showBoots() {
    const boots = [];
    await stream('boots', this.parameters, (entries) => boots.push(...entries), { signal: this.abort.signal });
    const made = bootSection(boots);
    if (made && this.part === 'system') this.place.append(made);
  }

  systemHead(system, index) {
    const os = String(index + 1);
    return el('div', { class: 'panel-head' }, el('h3', {}, `${os}. `, raw(system.product ?? system.volume)),
      el('a', { href: linkTo(this.route, { view: 'files', os, volume: '' }) }, 'Show its files'));
  }

  downloads() {
    const link = (format, title) => el('a', { class: 'button', href: address('sbom', { ...this.parameters, format }), download: '' }, title);
    return el('div', { class: 'toolbar' }, link('spdx', 'Download SBOM (SPDX)'), link('cyclonedx', 'Download SBOM (CycloneDX)'));
  }

  close() {
    this.abort.abort();
    this.logs?.close();
  }
}

export const open = (body, route) => new GuestView(body, route);
