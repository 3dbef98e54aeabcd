// Shows errors, warnings and progress: as text in the view, and to screen readers through a live region.

import { el, raw } from './dom.js';

/** Says a short text to screen readers. */
export function announce(text) {
  const region = document.getElementById('status');
  if (region) region.textContent = text;
}

export function errorBox(error, what) {
  const box = el('div', { class: 'message error', role: 'alert' },
    el('p', {}, what ? `${what}: ` : '', raw(error.message)));
  if (error.hint && !error.message.includes(error.hint)) box.append(el('p', { class: 'hint' }, raw(error.hint)));
  return box;
}

export const warningBox = (text) => el('div', { class: 'message warning' }, el('p', {}, el('strong', {}, 'Warning: '), raw(text)));

export const noteBox = (text) => el('p', { class: 'note' }, text);

/** The boxes of the messages that came along with a document. */
export function messageBoxes(messages) {
  return messages.map((message) => (message.error ? errorBox(message.error) : warningBox(message.warning?.message ?? '')));
}

/** Runs a request of a view, and shows its error in `place` unless it was cancelled. */
export async function guarded(place, what, work) {
  try {
    return await work();
  } catch (error) {
    if (error.name === 'AbortError') return undefined;
    if (error.kind === undefined) console.error(error);
    place.append(errorBox(error, what));
    announce(`${what}: ${error.message}`);
    return undefined;
  }
}
