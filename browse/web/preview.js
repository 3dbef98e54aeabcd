// The preview of a file's contents: a picture, text, or bytes in hexadecimal.

import { getBytes } from './api.js';
import { appendRaw, button, el } from './dom.js';
import { bytes, size } from './format.js';
import { HexView } from './hex.js';
import { guarded } from './messages.js';
import { fromBytes } from './paths.js';

const STEP = 256 * 1024;
const LARGEST_PICTURE = 32 * 1024 * 1024;

const MAGIC = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]], ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
];

/** The type of a picture, by its first bytes. */
export function pictureType(octets) {
  for (const [type, magic] of MAGIC) if (magic.every((octet, index) => octets[index] === octet)) return type;
  const text = String.fromCharCode(...octets.subarray(0, 12));
  return text.startsWith('RIFF') && text.endsWith('WEBP') ? 'image/webp' : null;
}

const isBinary = (octets) => octets.subarray(0, 8192).includes(0);

/** The end of the last complete UTF-8 sequence, so that a step does not cut a character. */
function completeEnd(octets) {
  for (let back = 1; back <= Math.min(3, octets.length); back++) {
    const octet = octets[octets.length - back];
    if (octet < 0x80) break;
    if (octet >= 0xc0) {
      const length = octet >= 0xf0 ? 4 : octet >= 0xe0 ? 3 : 2;
      return length > back ? octets.length - back : octets.length;
    }
  }
  return octets.length;
}

export class Preview {
  constructor(parameters, length) {
    Object.assign(this, { parameters, length });
    this.abort = new AbortController();
    this.place = el('div', { class: 'preview-body' });
    this.choice = el('div', { class: 'choice', role: 'group', 'aria-label': 'Preview' });
    this.element = el('section', { class: 'preview', 'aria-label': 'Preview' }, this.choice, this.place);
    if (length === 0) this.place.append(el('p', { class: 'note' }, 'The file is empty.'));
    else guarded(this.place, 'cannot read the file', () => this.#start());
  }

  #read(offset, length) {
    return getBytes('cat', { ...this.parameters, offset, length }, { signal: this.abort.signal });
  }

  async #start() {
    this.first = await this.#read(0, STEP);
    const picture = pictureType(this.first);
    const kinds = [['Text', () => this.#showText()], ['Hex', () => this.#showHex()]];
    if (picture && this.length <= LARGEST_PICTURE) kinds.unshift(['Picture', () => this.#showPicture(picture)]);
    const buttons = kinds.map(([title, show]) => button(title, () => this.#choose(buttons, title, show), { 'aria-pressed': 'false' }));
    this.choice.append(...buttons);
    const preferred = picture && this.length <= LARGEST_PICTURE ? 0 : isBinary(this.first) ? kinds.length - 1 : kinds.length - 2;
    this.#choose(buttons, ...kinds[preferred]);
  }

  #choose(buttons, title, show) {
    this.chosen = title;
    for (const other of buttons) other.setAttribute('aria-pressed', String(other.textContent === title));
    this.place.replaceChildren();
    guarded(this.place, 'cannot show the contents', show);
  }

  async #showPicture(type) {
    const all = this.first.length < this.length ? await this.#read(0, this.length) : this.first;
    if (this.chosen !== 'Picture') return;
    this.address ??= URL.createObjectURL(new Blob([all], { type }));
    const image = el('img', { src: this.address, alt: 'the picture in the file' });
    image.addEventListener('error', () => this.place.replaceChildren(el('p', { class: 'note' }, 'The picture is damaged; choose "Hex" to see its bytes.')));
    this.place.replaceChildren(image);
  }

  #showText() {
    const text = el('pre', { class: 'text', tabindex: 0, role: 'region', 'aria-label': 'Text' });
    const progress = el('span', { class: 'note' });
    let end = 0;
    const add = (octets) => {
      const complete = end + octets.length >= this.length ? octets.length : completeEnd(octets);
      end += complete || octets.length;
      appendRaw(text, fromBytes(octets.subarray(0, complete || octets.length)), true);
      progress.textContent = end < this.length ? `${size(end)} of ${size(this.length)} are shown. ` : '';
      more.hidden = end >= this.length || octets.length === 0;
    };
    const more = button('Show more', () => guarded(this.place, 'cannot read the file', async () => {
      more.disabled = true;
      try { add(await this.#read(end, STEP)); } finally { more.disabled = false; }
    }));
    this.place.replaceChildren(text, el('p', {}, progress, more));
    add(this.first);
  }

  #showHex() {
    const view = new HexView(this.length, (offset, length) => this.#read(offset, length));
    this.place.replaceChildren(el('p', { class: 'note' }, bytes(this.length)), view.element);
    return view.show(0);
  }

  close() {
    this.abort.abort();
    if (this.address) URL.revokeObjectURL(this.address);
  }
}
