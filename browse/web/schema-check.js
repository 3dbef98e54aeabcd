// Checks parsed JSON against the parts of JSON Schema that the schema of plans uses.

const list = (value) => (Array.isArray(value) ? value : [value]);
const article = { string: 'a string', number: 'a number', integer: 'an integer', boolean: 'true or false', array: 'a list', object: 'an object', null: 'null' };

export class SchemaCheck {
  constructor(schema) {
    this.schema = schema;
  }

  resolve(schema) {
    let at = schema;
    while (at?.$ref) at = { ...this.schema.$defs[at.$ref.split('/').at(-1)], ...(at.description ? { description: at.description } : {}) };
    return at;
  }

  /** The errors of a node: `{ offset, message }`. */
  errors(node, schema = this.schema) {
    const actual = this.resolve(schema);
    if (actual === true || actual === undefined) return [];
    const options = actual.oneOf ?? actual.anyOf;
    const own = this.#own(node, actual);
    return options ? [...own, ...this.#alternatives(node, options.map((option) => this.resolve(option)))] : own;
  }

  #own(node, schema) {
    const fail = (message) => [{ offset: node.start, message }];
    if (schema.type && !this.#hasType(node, list(schema.type))) {
      return fail(`expected ${list(schema.type).filter((type) => type !== 'null').map((type) => article[type] ?? type).join(' or ')}`);
    }
    if (schema.const !== undefined && node.value !== schema.const) return fail(`expected ${JSON.stringify(schema.const)}`);
    if (schema.enum && !schema.enum.includes(node.value)) return fail(`expected one of ${schema.enum.join(', ')}`);
    if (schema.minimum !== undefined && node.value < schema.minimum) return fail(`the smallest value is ${schema.minimum}`);
    if (schema.maximum !== undefined && node.value > schema.maximum) return fail(`the largest value is ${schema.maximum}`);
    if (node.kind === 'array' && schema.items) return node.items.flatMap((item) => this.errors(item, schema.items));
    if (node.kind === 'object') return this.#object(node, schema);
    return [];
  }

  #hasType(node, types) {
    return types.some((type) => type === node.kind || (type === 'integer' && node.kind === 'number' && Number.isInteger(node.value)));
  }

  #object(node, schema) {
    const properties = new Map(Object.entries(schema.properties ?? {}));
    const missing = (schema.required ?? []).filter((key) => !node.entries.has(key)).map((key) => ({ offset: node.start, message: `the key ${JSON.stringify(key)} is missing` }));
    const inside = [...node.entries].flatMap(([key, { keyStart, node: value }]) => {
      if (properties.has(key)) return this.errors(value, properties.get(key));
      if (schema.additionalProperties === false) return [{ offset: keyStart, message: `unknown key ${JSON.stringify(key)}${known(properties)}` }];
      return typeof schema.additionalProperties === 'object' ? this.errors(value, schema.additionalProperties) : [];
    });
    return [...missing, ...inside];
  }

  /** Without an alternative that fits, the errors of the one that was probably meant. */
  #alternatives(node, options) {
    const results = options.map((option) => ({ option, errors: this.errors(node, option) }));
    if (results.some(({ errors }) => errors.length === 0)) return [];
    const keys = node.kind === 'object' ? [...node.entries.keys()] : [];
    const meant = results.find(({ option }) => option.required?.length && option.required.every((key) => keys.includes(key)))
      ?? results.find(({ option }) => option.type && this.#hasType(node, list(option.type)) && !option.required?.length && option.const === undefined);
    if (meant) return meant.errors;
    return [{ offset: node.start, message: `expected ${describe(options)}` }];
  }
}

function known(properties) {
  const names = [...properties.keys()];
  return names.length && names.length <= 12 ? `; known keys: ${names.join(', ')}` : '';
}

function describe(options) {
  const names = options.map((option) => (option.const !== undefined ? JSON.stringify(option.const)
    : option.required?.length ? option.required.join('+') : list(option.type ?? 'a value').map((type) => article[type] ?? type).join(' or ')));
  return `one of ${[...new Set(names)].join(', ')}`;
}

/** The steps of the schema: `name`, `description`, and the schema of the value. */
export function steps(check) {
  return (check.resolve(check.schema.properties.steps.items).oneOf ?? []).map((step) => {
    const [name] = step.required;
    return { name, description: step.description ?? '', value: step.properties[name] };
  });
}

/** The keys of a step's value, with all keys of its alternatives. */
export function keysOf(check, schema, seen = new Set()) {
  const actual = check.resolve(schema);
  if (!actual || seen.has(actual)) return [];
  seen.add(actual);
  const own = Object.entries(actual.properties ?? {}).map(([name, value]) => ({
    name, isRequired: (actual.required ?? []).includes(name), description: value.description ?? check.resolve(value)?.description ?? '', value,
  }));
  const others = (actual.oneOf ?? actual.anyOf ?? []).flatMap((option) => keysOf(check, option, seen));
  return [...own, ...others.filter(({ name }) => !own.some((key) => key.name === name))];
}

/** An example of a value: required keys only. */
export function example(check, schema, depth = 0) {
  const actual = check.resolve(schema);
  if (!actual || actual === true || depth > 4) return '';
  if (actual.const !== undefined) return actual.const;
  if (actual.enum) return actual.enum[0];
  const options = actual.oneOf ?? actual.anyOf;
  if (options) return example(check, options.find((option) => check.resolve(option)?.type !== 'null') ?? options[0], depth + 1);
  const type = list(actual.type)[0];
  if (type === 'object') return Object.fromEntries((actual.required ?? []).map((key) => [key, example(check, actual.properties?.[key], depth + 1)]));
  if (type === 'array') return [];
  return { integer: actual.minimum ?? 0, number: 0, boolean: true, string: '' }[type] ?? '';
}
