// Paths of the image as strings. A byte that is not valid UTF-8 is kept as a lone surrogate (U+DC80 to U+DCFF),
// so that every name has its own string and can be turned back into its bytes.

const encoder = new TextEncoder();
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const isEscaped = (code) => code >= 0xdc80 && code <= 0xdcff;

/** The length of the valid UTF-8 sequence that begins at `start`, or 0. */
function sequenceLength(bytes, start) {
  const first = bytes[start];
  const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length === 0 || start + length > bytes.length) return 0;
  try {
    strict.decode(bytes.subarray(start, start + length));
    return length;
  } catch {
    return 0;
  }
}

export function fromBytes(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    let text = '';
    for (let at = 0; at < bytes.length;) {
      const length = sequenceLength(bytes, at);
      text += length ? strict.decode(bytes.subarray(at, at + length)) : String.fromCharCode(0xdc00 + bytes[at]);
      at += length || 1;
    }
    return text;
  }
}

export function toBytes(text) {
  const bytes = [];
  for (const character of text) {
    const code = character.codePointAt(0);
    if (isEscaped(code)) bytes.push(code - 0xdc00);
    else bytes.push(...encoder.encode(character));
  }
  return Uint8Array.from(bytes);
}

export const hasInvalidBytes = (text) => /[\udc80-\udcff]/.test(text) && [...text].some((c) => isEscaped(c.codePointAt(0)));

export function fromBase64(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** The exact string of a field that can have a `_base64` companion. */
export function exact(entry, field) {
  const base64 = entry[`${field}_base64`];
  return base64 ? fromBytes(fromBase64(base64)) : entry[field];
}

/** The parameters that name a path in a request. */
export function pathParameters(path) {
  if (!hasInvalidBytes(path)) return { path };
  return { path_base64: btoa(String.fromCharCode(...toBytes(path))) };
}

const isPlain = (byte) =>
  (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a)
  || byte === 0x2d || byte === 0x2e || byte === 0x5f || byte === 0x7e;

/** Percent-encodes the bytes of a string; `/` can be left as it is. */
export function percentEncode(text, keepSlash = false) {
  let result = '';
  for (const byte of toBytes(text)) {
    if (isPlain(byte) || (keepSlash && byte === 0x2f)) result += String.fromCharCode(byte);
    else result += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return result;
}

export function percentDecode(text) {
  const bytes = [];
  for (let at = 0; at < text.length; at++) {
    const hex = text[at] === '%' ? text.slice(at + 1, at + 3) : '';
    if (/^[0-9a-fA-F]{2}$/.test(hex)) {
      bytes.push(parseInt(hex, 16));
      at += 2;
    } else {
      const character = String.fromCodePoint(text.codePointAt(at));
      bytes.push(...encoder.encode(character));
      at += character.length - 1;
    }
  }
  return fromBytes(Uint8Array.from(bytes));
}

export const parentOf = (path) => path.slice(0, path.lastIndexOf('/')) || '/';
export const nameOf = (path) => path.slice(path.lastIndexOf('/') + 1) || '/';
export const join = (directory, name) => (directory === '/' ? `/${name}` : `${directory}/${name}`);

/** The path that a link in `directory` names; `.` and `..` are followed by name. */
export function resolve(directory, target) {
  const names = [];
  for (const name of (target.startsWith('/') ? target : `${directory}/${target}`).split('/')) {
    if (name === '..') names.pop();
    else if (name && name !== '.') names.push(name);
  }
  return `/${names.join('/')}`;
}

/** The directories from the root to a path, with the path itself. */
export function ancestors(path) {
  const result = ['/'];
  for (const name of path.split('/').filter(Boolean)) result.push(join(result.at(-1), name));
  return result;
}
