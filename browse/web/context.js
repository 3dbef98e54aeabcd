// Which image the page shows: the list of images, and the controls that choose image, snapshot and volume.

import { getDocument } from './api.js';
import { el, field, select, visible } from './dom.js';
import { build, contextParameters, go } from './router.js';

let imagesRequest = null;
const infoRequests = new Map();

export function loadImages() {
  imagesRequest ??= getDocument('images').then(({ document }) => document);
  return imagesRequest;
}

/** The answer of `info` for the image and snapshot of a route; it is requested once. */
export function loadInfo(route) {
  const parameters = contextParameters(route, ['image', 'snapshot']);
  const key = JSON.stringify(parameters);
  if (!infoRequests.has(key)) {
    const request = getDocument('info', parameters);
    request.catch(() => infoRequests.delete(key));
    infoRequests.set(key, request);
  }
  return infoRequests.get(key);
}

/** Forgets what is known of the images, after one was changed. */
export const forget = () => infoRequests.clear();

export async function imageName(route) {
  const { images } = await loadImages();
  return images[Number(route.parameters.get('image') ?? 0)]?.name ?? '';
}

function change(route, values) {
  const parameters = new Map(route.parameters);
  for (const [name, value] of Object.entries(values)) parameters.set(name, value);
  for (const name of ['select', 'file', 'at']) parameters.delete(name);
  go(build({ view: route.view, path: '/', parameters }));
}

function volumeOptions(info) {
  return info.filesystems.filter((filesystem) => filesystem.readable)
    .map(({ volume, type, label }) => [volume, visible(label ? `${volume}: ${type}, ${label}` : `${volume}: ${type}`)]);
}

/** The controls for one route. */
export async function controls(route) {
  const { images } = await loadImages();
  const chosen = (name) => route.parameters.get(name) ?? '';
  const result = [];
  const options = images.map(({ name }, index) => [String(index), visible(name)]);
  if (images.length > 1) {
    result.push(field('Image', select(options, chosen('image') || '0', (image) => change(route, { image, snapshot: '', volume: '', os: '' }))));
  } else result.push(el('span', { class: 'image-name' }, options[0]?.[1] ?? ''));
  const { document: info } = await loadInfo(route);
  const snapshots = (info.image.qcow2?.snapshots ?? []).map(({ id, name }) => [name || id, visible(name || id)]);
  if (snapshots.length) {
    result.push(field('Snapshot', select([['', 'none: current state'], ...snapshots], chosen('snapshot'), (snapshot) => change(route, { snapshot, volume: '', os: '' }))));
  }
  const volumes = volumeOptions(info);
  if (volumes.length > 1) {
    result.push(field('Volume', select([['', 'all, as the guest mounts them'], ...volumes], chosen('volume'), (volume) => change(route, { volume, os: '' }))));
  }
  return result;
}
