// The view "Disk": a map of the disk to scale, with details of what is chosen, and the same as tables.

import { getDocument, stream } from './api.js';
import { loadInfo } from './context.js';
import { coverageTable, fileDetails, gapDetails, kindText, rangeDetails, volumeDetails, volumeTable } from './disk-details.js';
import { Coverage, extentRanges, gaps, makeScale, placeVolumes } from './disk-layout.js';
import { picture, strip } from './disk-map.js';
import { el, raw, visible } from './dom.js';
import { size } from './format.js';
import { announce, guarded, messageBoxes, warningBox } from './messages.js';
import { pathParameters } from './paths.js';
import { contextParameters } from './router.js';

const ROWS = ['Partitions', 'Volumes inside', 'Volumes inside those', 'Deeper volumes'];

/** The files of an image's chain, the image itself first. */
function chain(image) {
  const files = [];
  for (let file = image; file; file = file.backing) files.push(file);
  return files;
}

function warnings(info, messages) {
  const texts = new Set([
    ...info.warnings, ...messages.map((message) => message.warning?.message).filter(Boolean),
    ...chain(info.image).flatMap((file) => file.warnings ?? []),
  ]);
  for (const text of info.partition_table?.warnings ?? []) {
    if (![...texts].some((known) => known.endsWith(text))) texts.add(text);
  }
  for (const { volume, problem } of info.volumes) if (problem) texts.add(`${volume}: ${problem}`);
  return [...texts].map(warningBox);
}

function volumeSegment(place, scale, info) {
  const { volume } = place;
  const label = info.filesystems.find((filesystem) => filesystem.volume === volume.volume)?.label;
  const left = scale(place.start);
  return {
    left, width: scale(place.start + place.length) - left, kind: volume.problem ? 'problem' : volume.class ?? 'unknown', volume,
    label: visible(`${volume.volume}: ${volume.content ?? 'unknown contents'}, ${label ? `${label}, ` : ''}${size(volume.size_bytes)}`),
    text: visible(`${volume.volume} ${label || volume.content || ''}`),
  };
}

function gapSegment(gap, scale) {
  const left = scale(gap.start);
  return { left, width: scale(gap.start + gap.length) - left, kind: 'free', gap, label: `unpartitioned space, ${size(gap.length)}` };
}

class DiskView {
  constructor(body, route) {
    this.abort = new AbortController();
    this.route = route;
    this.map = el('div', { class: 'disk-map' });
    this.details = el('section', { class: 'panel', 'aria-label': 'Details', 'aria-live': 'polite' }, el('p', {}, 'Choose a part of the map to see its details.'));
    this.tables = el('div', { class: 'tables' });
    this.notes = el('div');
    body.append(this.notes, el('div', { class: 'split' }, el('div', {}, this.map, this.tables), this.details));
    guarded(this.notes, 'cannot show the disk', () => this.load());
  }

  async load() {
    const { document: info, messages } = await loadInfo(this.route);
    if (this.abort.signal.aborted) return;
    this.info = info;
    this.places = placeVolumes(info);
    const partitions = [...this.places.values()].filter(({ depth }) => depth === 0);
    const total = info.image.virtual_size_bytes ?? 0;
    this.partitions = partitions;
    this.scale = makeScale(partitions, total);
    this.notes.append(...messageBoxes(messages.filter(({ error }) => error)), ...warnings(info, messages));
    this.showVolumes(total);
    this.fileExtents = el('div');
    this.map.append(this.fileExtents);
    performance.mark('view-ready');
    this.update(this.route);
    await this.loadMap();
  }

  choose(...nodes) {
    this.details.replaceChildren(...nodes.flat().filter(Boolean));
  }

  showVolumes(total) {
    const show = ({ volume, gap }) => this.choose(volume ? volumeDetails(this.info, volume, this.route) : gapDetails(gap));
    const places = [...this.places.values()];
    const deepest = Math.max(0, ...places.map(({ depth }) => depth));
    const table = this.info.partition_table?.type;
    for (let depth = 0; depth <= deepest; depth++) {
      const segments = places.filter((place) => place.depth === depth).map((place) => volumeSegment(place, this.scale, this.info));
      if (depth === 0) segments.push(...gaps(this.partitions, total).map((gap) => gapSegment(gap, this.scale)));
      segments.sort((a, b) => a.left - b.left);
      const title = depth === 0 ? (table ? `${ROWS[0]} (${table.toUpperCase()}), ${size(total)}` : `Disk without partitions, ${size(total)}`) : ROWS[Math.min(depth, 3)];
      this.map.append(strip(title, segments, show));
    }
    this.tables.append(volumeTable(this.info, (volume) => this.choose(volumeDetails(this.info, volume, this.route))));
  }

  async loadMap() {
    const files = chain(this.info.image).map((file) => ({ file, coverage: new Coverage(this.scale) }));
    await stream('map', contextParameters(this.route, ['image', 'snapshot']), (extents) => {
      for (const extent of extents) files[extent.depth]?.coverage.add(extent);
    }, { signal: this.abort.signal });
    for (const { file, coverage } of files) {
      const segments = coverage.runs().map((run) => ({ ...run, label: `${kindText(run.kind)}`, run }));
      this.map.append(strip(raw(file.path), segments, ({ run }) => this.choose(
        rangeDetails(file.path, run.kind, coverage.extentsBetween(run.left, run.left + run.width)), fileDetails(file))));
    }
    this.tables.append(coverageTable(files));
    performance.mark('map-ready');
    announce('the map of the disk is complete');
  }

  /** Shows the extents of the file that the address names. */
  update(route) {
    const path = route.parameters.get('file');
    if (!this.fileExtents || path === this.file) return;
    this.file = path;
    this.fileExtents.replaceChildren();
    if (path) guarded(this.fileExtents, 'cannot show the extents', () => this.showFile(path));
  }

  async showFile(path) {
    const { document } = await getDocument('stat', { ...contextParameters(this.route), ...pathParameters(path) }, { signal: this.abort.signal });
    if (path !== this.file) return;
    const ranges = document.entries.flatMap((entry) => extentRanges(entry, this.places));
    const label = `extents of ${visible(path)} on the disk`;
    this.fileExtents.append(el('div', { class: 'strip-row' }, el('div', { class: 'strip-title' }, 'Extents of ', raw(path)), picture(label, this.partitions, ranges, this.scale)));
  }

  close() {
    this.abort.abort();
  }
}

export const open = (body, route) => new DiskView(body, route);
