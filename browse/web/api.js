// Sends requests to the server, and parses its answers: whole documents, and lists that arrive line by line.

export class ApiError extends Error {
  constructor(message, { hint = null, kind = 'internal', status = 0 } = {}) {
    super(message);
    this.hint = hint;
    this.kind = kind;
    this.status = status;
  }
}

/** The relative address of a request; empty parameters are left out. */
export function address(command, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, value);
  }
  const text = query.toString();
  return `api/${command}${text ? `?${text}` : ''}`;
}

async function failure(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch { /* The answer is not a document: the status says what is known. */ }
  const message = error.message ?? `the server answered with status ${response.status}`;
  return new ApiError(message, { hint: error.hint, kind: error.kind, status: response.status });
}

async function send(command, parameters, { signal, ...options } = {}) {
  let response;
  try {
    response = await fetch(address(command, parameters), { signal, ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('the server does not answer', { hint: 'check that `diskfs browse` is still running', kind: 'network' });
  }
  if (!response.ok) throw await failure(response);
  return response;
}

/** The errors and warnings that the server sent along with a document. */
export function messagesOf(response) {
  const header = response.headers.get('Diskfs-Messages');
  if (!header) return [];
  try {
    return JSON.parse(decodeURIComponent(header));
  } catch {
    return [];
  }
}

function incomplete(error) {
  if (error.name === 'AbortError' || error instanceof ApiError) return error;
  return new ApiError('the answer was cut off: the result is incomplete', {
    hint: 'load it again; the terminal of `diskfs browse` may show the reason', kind: 'incomplete',
  });
}

/** A whole document, with its `messages`. */
export async function getDocument(command, parameters, options) {
  const response = await send(command, parameters, options);
  try {
    return { document: await response.json(), messages: messagesOf(response) };
  } catch (error) {
    throw incomplete(error);
  }
}

export async function getBytes(command, parameters, options) {
  const response = await send(command, parameters, options);
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    throw incomplete(error);
  }
}

/** Splits a stream of bytes into lines, and gives them in batches as they arrive. */
async function* lineBatches(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    if (lines.length) yield lines;
  }
  if (rest) yield [rest];
}

function isHeader(line) {
  return line.startsWith('{"diskfs":') && (line.endsWith(',') || line.includes('"error"') || line.endsWith(']}'));
}

/**
 * Reads a list with one entry per line. `onEntries` gets each batch; the result is the document without its entries.
 */
export async function stream(command, parameters, onEntries, options) {
  const response = await send(command, parameters, options);
  let frame = '';
  try {
    for await (const lines of lineBatches(response.body)) {
      const entries = [];
      for (const line of lines) {
        if (line.startsWith('{') && !(frame === '' && isHeader(line))) {
          entries.push(JSON.parse(line.endsWith(',') ? line.slice(0, -1) : line));
        } else frame += line;
      }
      if (entries.length) onEntries(entries);
    }
    return { document: frame ? JSON.parse(frame) : {}, messages: messagesOf(response) };
  } catch (error) {
    throw incomplete(error);
  }
}

export async function post(command, parameters, body, options) {
  const response = await send(command, parameters, {
    method: 'POST', body, headers: { 'Content-Type': 'application/json' }, ...options,
  });
  return { document: await response.json(), messages: messagesOf(response) };
}
