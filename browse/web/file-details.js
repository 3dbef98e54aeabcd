// The details of one file: its metadata, extended attributes, extents and contents.

import { address, getDocument } from './api.js';
import { loadInfo } from './context.js';
import { extentRanges, makeScale, placeVolumes } from './disk-layout.js';
import { picture } from './disk-map.js';
import { el, raw, visible } from './dom.js';
import { exactSize, bytes, modeLetters, modeWords, owner, plural, size, time, type } from './format.js';
import { announce, guarded, messageBoxes } from './messages.js';
import { exact, fromBase64, fromBytes, hasInvalidBytes, nameOf, parentOf, pathParameters, resolve } from './paths.js';
import { Preview } from './preview.js';
import { contextParameters, linkTo } from './router.js';
import { facts, grid } from './table.js';

function modeList(entry) {
  return el('div', {}, el('code', {}, `${entry.mode} ${modeLetters(entry.type, entry.mode)}`),
    el('ul', { class: 'plain' }, modeWords(entry.type, entry.mode).map((words) => el('li', {}, words))));
}

function metadata(entry) {
  return facts([
    ['Path', exact(entry, 'path')], ['Type', type(entry.type)], ['Target', entry.target ? exact(entry, 'target') : null],
    ['Size', exactSize(entry.size_bytes)], ['Allocated', exactSize(entry.allocated_bytes)],
    ['Permissions', modeList(entry)], ['Owner', `${owner(entry)} (${entry.uid}:${entry.gid})`],
    ['Modified', time(entry.modified)], ['Changed', time(entry.changed)], ['Accessed', time(entry.accessed)], ['Created', time(entry.created)],
    ['Inode', String(entry.inode)], ['Links', String(entry.links)], ['Flags', entry.flags],
    ['Device', entry.device ? `${entry.device.major}:${entry.device.minor}` : null],
  ]);
}

/** The value of an attribute as text if it is text, otherwise in hexadecimal. */
function attributeValue({ value_base64: value }) {
  const octets = fromBase64(value);
  const text = fromBytes(octets.at(-1) === 0 ? octets.subarray(0, -1) : octets);
  if (!hasInvalidBytes(text) && !/[\0-\x08]/.test(text)) return raw(text);
  return el('code', {}, [...octets].map((octet) => octet.toString(16).padStart(2, '0')).join(' '));
}

function attributes(entry) {
  if (!entry.xattrs.length) return null;
  return el('section', {}, grid(entry.xattrs, [['Name', (attribute) => exact(attribute, 'name')], ['Value', attributeValue]], 'Extended attributes'));
}

const SHOWN = 100;

async function extents(entry, route, path) {
  const list = entry.extents ?? [];
  if (!list.length) return null;
  const { document: info } = await loadInfo(route);
  const placed = placeVolumes(info);
  const partitions = [...placed.values()].filter(({ depth }) => depth === 0);
  const scale = makeScale(partitions, info.image.virtual_size_bytes ?? 0);
  const ranges = extentRanges(entry, placed);
  const table = grid(list.slice(0, SHOWN), [
    ['Offset in the file', (extent) => bytes(extent.offset_bytes)], ['Length', (extent) => size(extent.length_bytes)],
    ['Kind', (extent) => extent.kind], [entry.volume ? `Offset in ${visible(entry.volume)}` : 'Offset in the volume', (extent) => (extent.volume_offset_bytes === null ? '' : bytes(extent.volume_offset_bytes))],
  ], 'Extents');
  return el('section', {}, el('h4', {}, plural(list.length, 'extent')), picture(`extents of ${visible(path)} on the disk`, partitions, ranges, scale),
    el('p', {}, el('a', { href: linkTo(route, { view: 'disk', file: path }) }, 'Show on the disk map')),
    el('details', {}, el('summary', {}, 'Table of extents'), table));
}

function downloads(entry, parameters) {
  if (entry.type === 'directory') return el('p', {}, el('a', { class: 'button', href: address('tar', parameters), download: '' }, 'Download as tar'));
  if (entry.type !== 'file') return null;
  return el('p', {}, el('a', { class: 'button', href: address('cat', { ...parameters, download: 1 }), download: '' }, 'Download'));
}

/** A link to what a symbolic link points to, followed by name only. */
function targetLink(entry, path, route) {
  if (entry.type !== 'symlink') return null;
  const target = resolve(parentOf(path), exact(entry, 'target'));
  return el('p', {}, el('a', { class: 'button', href: linkTo(route, { view: 'files', path: parentOf(target), select: target === '/' ? '.' : nameOf(target) }) }, 'Show the target'));
}

export class FileDetails {
  constructor(onclose) {
    this.onclose = onclose;
    this.element = el('section', { class: 'panel file-details', 'aria-label': 'Details', tabindex: -1 }, this.#hint());
  }

  #hint() {
    return el('p', { class: 'note' }, 'Choose a file to see its details.');
  }

  clear() {
    this.stop();
    this.element.replaceChildren(this.#hint());
  }

  stop() {
    this.abort?.abort();
    this.preview?.close();
    this.preview = null;
  }

  show(path, route) {
    this.stop();
    this.abort = new AbortController();
    const close = el('button', { type: 'button', class: 'close', onclick: this.onclose }, 'Close');
    this.element.replaceChildren(el('div', { class: 'panel-head' }, el('h3', {}, raw(nameOf(path))), close));
    return guarded(this.element, 'cannot show the file', () => this.#load(path, route, this.abort.signal));
  }

  async #load(path, route, signal) {
    const parameters = { ...contextParameters(route), ...pathParameters(path) };
    const { document, messages } = await getDocument('stat', parameters, { signal });
    const [entry] = document.entries;
    this.element.append(...messageBoxes(messages), ...[downloads(entry, parameters), targetLink(entry, path, route)].filter(Boolean));
    if (entry.type === 'file') {
      this.preview = new Preview(parameters, entry.size_bytes);
      this.element.append(this.preview.element);
    }
    this.element.append(...[metadata(entry), attributes(entry), await extents(entry, route, path)].filter(Boolean));
    announce(`details of ${visible(nameOf(path))} are shown`);
  }
}
