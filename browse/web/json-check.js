// Parses JSON and remembers where each value is, so that errors can name their line and column.

export class JsonError extends Error {
  constructor(message, offset) {
    super(message);
    this.offset = offset;
  }
}

const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const NUMBER = /-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const WORDS = [['true', true], ['false', false], ['null', null]];

/** Line and column, from 1, of an offset in a text. */
export function position(text, offset) {
  const before = text.slice(0, offset);
  const line = before.split('\n').length;
  return { line, column: offset - before.lastIndexOf('\n') };
}

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail(message, offset = this.at) {
    throw new JsonError(message, offset);
  }

  space() {
    while (' \t\n\r'.includes(this.text[this.at] ?? 'x')) this.at++;
  }

  value() {
    this.space();
    const start = this.at;
    const node = this.#start(start);
    this.space();
    return node;
  }

  #start(start) {
    const first = this.text[this.at];
    if (first === undefined) this.fail('the text ends before a value');
    if (first === '{') return this.#object(start);
    if (first === '[') return this.#array(start);
    if (first === '"') return { kind: 'string', value: this.#string(), start };
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, start)) {
        this.at += word.length;
        return { kind: value === null ? 'null' : 'boolean', value, start };
      }
    }
    NUMBER.lastIndex = start;
    const number = NUMBER.exec(this.text);
    if (!number) this.fail(`expected a value, found ${JSON.stringify(first)}`);
    this.at += number[0].length;
    return { kind: 'number', value: Number(number[0]), start };
  }

  #string() {
    const start = this.at++;
    let result = '';
    for (;;) {
      const character = this.text[this.at++];
      if (character === undefined || character === '\n') this.fail('the string has no end', start);
      if (character === '"') return result;
      if (character < ' ') this.fail('a control character in a string: write it as \\u00XX', this.at - 1);
      if (character !== '\\') result += character;
      else result += this.#escape();
    }
  }

  #escape() {
    const letter = this.text[this.at++];
    if (letter === 'u') {
      const digits = this.text.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail('\\u needs four hexadecimal digits', this.at - 2);
      this.at += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    return ESCAPES[letter] ?? this.fail('unknown escape in a string', this.at - 2);
  }

  /** Reads `item` repeatedly until the closing bracket. */
  #list(close, item) {
    this.at++;
    this.space();
    if (this.text[this.at] === close) {
      this.at++;
      return;
    }
    for (;;) {
      item();
      const next = this.text[this.at];
      if (next === ',') this.at++;
      else if (next === close) {
        this.at++;
        return;
      } else this.fail(next === undefined ? `the text ends before ${close}` : `expected , or ${close}, found ${JSON.stringify(next)}`);
      this.space();
      if (this.text[this.at] === close) this.fail(`a comma before ${close}: remove it`, this.at);
    }
  }

  #array(start) {
    const items = [];
    this.#list(']', () => items.push(this.value()));
    return { kind: 'array', items, start, end: this.at };
  }

  #object(start) {
    const entries = new Map();
    this.#list('}', () => {
      this.space();
      const keyStart = this.at;
      if (this.text[this.at] !== '"') this.fail('expected a key in double quotes');
      const key = this.#string();
      if (entries.has(key)) this.fail(`the key ${JSON.stringify(key)} is there twice`, keyStart);
      this.space();
      if (this.text[this.at] !== ':') this.fail('expected : after the key');
      this.at++;
      entries.set(key, { keyStart, node: this.value() });
    });
    return { kind: 'object', entries, start, end: this.at };
  }
}

/** The value with its positions: nodes have `kind`, `start` and `value`, `items` or `entries`. */
export function parseJson(text) {
  const parser = new Parser(text);
  const node = parser.value();
  if (parser.at < text.length) parser.fail('unexpected text after the end of the value');
  return node;
}
