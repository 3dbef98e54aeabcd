// Helpers that make elements. Text from the image only ever becomes a text node, and characters that could hide or
// reorder other text are shown as their code points.

const SVG = 'http://www.w3.org/2000/svg';

function apply(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
}

/** Makes an element: attributes, `on…` listeners, and children that are nodes or text. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  apply(element, properties);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  apply(element, properties);
  element.append(...children);
  return element;
}

// Control characters, bidirectional controls, invisible characters, and lone surrogates (invalid bytes).
const SPECIAL = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|[\u{e0000}-\u{e007f}]/u;
const SPECIAL_ALL = new RegExp(SPECIAL.source, 'gu');
const SHORT = new Map([['\n', '\\n'], ['\t', '\\t'], ['\r', '\\r'], ['\x1b', '\\e'], ['\0', '\\0']]);

function describe(character) {
  const code = character.codePointAt(0);
  if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`;
  return SHORT.get(character) ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** The text with special characters replaced by their code points, for attributes. */
export function visible(text) {
  return String(text).replace(SPECIAL_ALL, (character) => `[${describe(character)}]`);
}

/** An element that shows text of the image. With `lines`, line breaks and tabs are kept. */
export function raw(text, { lines = false } = {}) {
  const element = el('bdi', { class: 'raw' });
  appendRaw(element, text, lines);
  return element;
}

export function appendRaw(element, text, lines = false) {
  const string = String(text);
  if (!SPECIAL.test(string)) {
    element.append(string);
    return;
  }
  let end = 0;
  for (const match of string.matchAll(SPECIAL_ALL)) {
    if (lines && (match[0] === '\n' || match[0] === '\t')) continue;
    element.append(string.slice(end, match.index));
    element.append(el('span', { class: 'code-point' }, describe(match[0])));
    end = match.index + match[0].length;
  }
  element.append(string.slice(end));
}

export const button = (text, onclick, properties = {}) => el('button', { type: 'button', onclick, ...properties }, text);

/** A label with its control. */
export const field = (text, control) => el('label', { class: 'field' }, el('span', {}, text), control);

export function select(options, value, onchange, properties = {}) {
  const control = el('select', { onchange: () => onchange(control.value), ...properties },
    options.map(([key, text]) => el('option', { value: key }, text)));
  control.value = value;
  return control;
}

let nextId = 0;
export const uniqueId = (prefix) => `${prefix}-${++nextId}`;
