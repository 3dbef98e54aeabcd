// Turns sizes, times, modes and types into words.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return '';
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const text = unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1);
  return `${text} ${UNITS[unit]}`;
}

export const bytes = (count) => `${Number(count).toLocaleString('en')} bytes`;
export const exactSize = (count) => (count < 1024 ? bytes(count) : `${size(count)} (${bytes(count)})`);
export const count = (number) => Number(number).toLocaleString('en');
export const plural = (number, noun, many = `${noun}s`) => `${count(number)} ${number === 1 ? noun : many}`;

/** A time of the API (RFC 3339, UTC) without the fraction. */
export function time(text) {
  if (!text) return '';
  return text.replace('T', ' ').replace(/(\.\d+)?Z$/, '');
}

export function microseconds(text) {
  const date = new Date(Number(text) / 1000);
  return Number.isNaN(date.getTime()) ? String(text) : date.toISOString().replace('T', ' ').replace('Z', '');
}

const TYPES = new Map([
  ['file', 'file'], ['directory', 'directory'], ['symlink', 'symbolic link'], ['block_device', 'block device'],
  ['character_device', 'character device'], ['fifo', 'FIFO'], ['socket', 'socket'],
]);
const LETTERS = new Map([
  ['file', '-'], ['directory', 'd'], ['symlink', 'l'], ['block_device', 'b'], ['character_device', 'c'],
  ['fifo', 'p'], ['socket', 's'],
]);

export const type = (kind) => TYPES.get(kind) ?? kind;

function special(bit, letter, executable) {
  if (!bit) return executable ? 'x' : '-';
  return executable ? letter : letter.toUpperCase();
}

/** The mode as ls(1) shows it. */
export function modeLetters(kind, octal) {
  const mode = parseInt(octal, 8);
  const triple = (shift, bit, letter) =>
    `${mode >> shift & 4 ? 'r' : '-'}${mode >> shift & 2 ? 'w' : '-'}${special(mode & bit, letter, mode >> shift & 1)}`;
  return (LETTERS.get(kind) ?? '?') + triple(6, 0o4000, 's') + triple(3, 0o2000, 's') + triple(0, 0o1000, 't');
}

function rights(bits, isDirectory) {
  const words = [];
  if (bits & 4) words.push(isDirectory ? 'list' : 'read');
  if (bits & 2) words.push(isDirectory ? 'create and delete' : 'write');
  if (bits & 1) words.push(isDirectory ? 'enter' : 'execute');
  return words.length ? words.join(', ') : 'nothing';
}

/** The mode in words: one text for each class of users, and for each special bit. */
export function modeWords(kind, octal) {
  const mode = parseInt(octal, 8);
  const isDirectory = kind === 'directory';
  const words = [
    `owner: ${rights(mode >> 6, isDirectory)}`,
    `group: ${rights(mode >> 3, isDirectory)}`,
    `others: ${rights(mode, isDirectory)}`,
  ];
  if (mode & 0o4000) words.push('set-user-ID: runs as the owner');
  if (mode & 0o2000) words.push(isDirectory ? 'set-group-ID: new files get its group' : 'set-group-ID: runs as the group');
  if (mode & 0o1000) words.push('sticky: only owners delete their files');
  return words;
}

export const owner = (entry) =>
  [[entry.user, entry.uid], [entry.group, entry.gid]].map(([name, id]) => name ?? id).join(':');
