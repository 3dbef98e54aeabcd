// The bytes of a file in hexadecimal, one page at a time.

import { button, el, field } from './dom.js';
import { guarded } from './messages.js';

const WIDTH = 16;
const PAGE = 64 * WIDTH;

const hex = (value, digits) => value.toString(16).padStart(digits, '0');
const printable = (octet) => (octet >= 0x20 && octet < 0x7f ? String.fromCharCode(octet) : '.');

/** The lines of a page: offset, bytes and characters. */
export function hexLines(octets, offset) {
  const lines = [];
  for (let start = 0; start < octets.length; start += WIDTH) {
    const row = [...octets.subarray(start, start + WIDTH)];
    const codes = row.map((octet) => hex(octet, 2));
    const left = codes.slice(0, 8).join(' ').padEnd(23);
    const right = codes.slice(8).join(' ').padEnd(23);
    lines.push(`${hex(offset + start, 8)}  ${left}  ${right}  ${row.map(printable).join('')}`);
  }
  return lines.join('\n');
}

/** An offset as people write it: decimal, or hexadecimal with 0x. */
export function parseOffset(text) {
  const trimmed = text.trim();
  return /^(0x[0-9a-f]+|\d+)$/i.test(trimmed) ? Number(trimmed) : null;
}

export class HexView {
  /** `read(offset, length)` gives the bytes. */
  constructor(length, read) {
    // The offset of the page that was asked for last, whether or not its bytes have arrived.
    Object.assign(this, { length, read, offset: 0 });
    this.text = el('pre', { class: 'hex', tabindex: 0, role: 'region', 'aria-label': 'Bytes' });
    this.input = el('input', { type: 'text', size: 12, value: '0x0', spellcheck: 'false' });
    this.input.addEventListener('change', () => this.#jump());
    this.back = button('Previous page', () => this.show(this.offset - PAGE));
    this.next = button('Next page', () => this.show(this.offset + PAGE));
    this.problem = el('div');
    this.element = el('div', {}, el('div', { class: 'toolbar' }, this.back, this.next, field('Offset', this.input)), this.problem, this.text);
  }

  #jump() {
    const offset = parseOffset(this.input.value);
    if (offset === null || offset >= this.length) this.input.setAttribute('aria-invalid', 'true');
    else this.show(offset - offset % WIDTH);
  }

  show(wanted) {
    const last = Math.max(0, Math.floor((this.length - 1) / WIDTH) * WIDTH);
    const offset = Math.min(last, Math.max(0, wanted));
    this.offset = offset;
    this.back.disabled = offset === 0;
    this.next.disabled = offset + PAGE >= this.length;
    this.problem.replaceChildren();
    return guarded(this.problem, 'cannot read the file', async () => {
      const octets = await this.read(offset, PAGE);
      if (this.offset !== offset) return;
      this.text.textContent = hexLines(octets, offset);
      this.input.value = `0x${hex(offset, 1)}`;
      this.input.removeAttribute('aria-invalid');
    });
  }
}
