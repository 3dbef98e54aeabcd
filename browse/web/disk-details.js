// The details of what is chosen on the disk map, and the tables that say in text what the map shows.

import { el, raw } from './dom.js';
import { bytes, exactSize, plural, size } from './format.js';
import { facts, grid } from './table.js';
import { linkTo } from './router.js';

const KINDS = { data: 'data', compressed: 'compressed', zero: 'zeroes', mostly: 'mostly stored', partly: 'partly stored', hole: 'not stored' };
export const kindText = (kind) => KINDS[kind] ?? kind;

function luksFacts(luks) {
  if (!luks) return [];
  return [
    ['Encryption', `LUKS${luks.version}, ${luks.cipher}`], ['Unlocked', luks.unlocked ? 'yes' : 'no'],
    ['Key slots', luks.keyslots.map(({ slot, kdf }) => `${slot}: ${kdf}`)], ['LUKS label', luks.label],
    ['LUKS UUID', luks.uuid], ['LUKS problem', luks.problem],
  ];
}

function filesystemFacts(filesystem) {
  if (!filesystem) return [];
  return [
    ['Label', filesystem.label], ['Filesystem UUID', filesystem.uuid],
    ['Used', filesystem.used_bytes === undefined ? null : exactSize(filesystem.used_bytes)],
    ['Available', filesystem.available_bytes === undefined ? null : exactSize(filesystem.available_bytes)],
    ['Block size', filesystem.block_size_bytes ? bytes(filesystem.block_size_bytes) : null],
    ['Inodes', filesystem.inodes ? `${plural(filesystem.inodes - filesystem.inodes_free, 'inode')} of ${filesystem.inodes}` : null],
    ['Features', filesystem.features], ['Driver', filesystem.driver], ['Driver reason', filesystem.driver_reason],
    ['Notes', filesystem.notes],
  ];
}

/** The details of a volume, with those of its partition and its filesystem. */
export function volumeDetails(info, volume, route) {
  const partition = info.partition_table?.partitions.find((candidate) => candidate.volume === volume.volume);
  const filesystem = info.filesystems.find((candidate) => candidate.volume === volume.volume);
  const array = info.arrays.find((candidate) => candidate.volume === volume.volume);
  const rows = [
    ['Volume', volume.volume], ['Contents', volume.content ?? 'unknown'], ['Class', volume.class],
    ['Size', exactSize(volume.size_bytes)],
    ['Start', volume.start_bytes === null ? 'not contiguous on the disk' : bytes(volume.start_bytes)],
    ['Partition type', partition?.type ?? partition?.type_id], ['Partition name', partition?.name], ['Partition UUID', partition?.uuid],
    ['Volume group', volume.logical?.group], ['Layout', volume.logical?.layout],
    ['RAID level', array?.level], ['RAID members', array?.members.map((member) => member ?? 'missing')], ['RAID name', array?.name],
    ...filesystemFacts(filesystem), ...luksFacts(volume.luks), ['Problem', volume.problem ?? partition?.problem],
  ];
  const links = filesystem?.readable ? el('p', {},
    el('a', { href: linkTo(route, { view: 'files', volume: volume.volume }) }, 'Show its files'), ' ',
    el('a', { href: linkTo(route, { view: 'space', volume: volume.volume }) }, 'Show its space')) : null;
  return [el('h3', {}, raw(volume.volume)), facts(rows), links];
}

export function gapDetails(gap) {
  return [el('h3', {}, 'Unpartitioned space'), facts([['Start', bytes(gap.start)], ['Size', exactSize(gap.length)]])];
}

const SHOWN = 50;

/** The details of a part of a file's strip. */
export function rangeDetails(name, kind, extents) {
  const list = grid(extents.slice(0, SHOWN), [
    ['Offset in the disk', (extent) => bytes(extent.offset_bytes)], ['Length', (extent) => size(extent.length_bytes)],
    ['Kind', (extent) => kindText(extent.kind)],
    ['Offset in the file', (extent) => (extent.host_offset_bytes === undefined || extent.host_offset_bytes === null ? '' : bytes(extent.host_offset_bytes))],
  ], 'Ranges');
  return [
    el('h3', {}, raw(name)), el('p', {}, `This part is ${kindText(kind)}: ${plural(extents.length, 'range')}.`),
    extents.length ? list : null,
    extents.length > SHOWN ? el('p', {}, `The first ${SHOWN} ranges are shown.`) : null,
  ];
}

export function fileDetails(file) {
  const { qcow2 } = file;
  return facts([
    ['File', file.path], ['Format', file.format], ['Disk size', file.virtual_size_bytes === null ? null : exactSize(file.virtual_size_bytes)],
    ['File size', file.file_size_bytes === null ? null : exactSize(file.file_size_bytes)],
    ['Allocated on the host', file.allocated_bytes === null ? null : exactSize(file.allocated_bytes)],
    ['Backing file', qcow2?.backing_name ?? file.details?.parent_name], ['Data file', qcow2?.data_file],
    ['Cluster size', qcow2 ? bytes(qcow2.cluster_size_bytes) : null], ['Version', qcow2?.compat], ['Features', qcow2?.features],
    ['Snapshots', qcow2?.snapshots.map(({ name, id }) => name || id)], ['Bitmaps', qcow2?.bitmaps.map(({ name }) => name)],
    ['Encryption', qcow2?.encryption ? `${qcow2.encryption.format}, ${qcow2.encryption.unlocked ? 'unlocked' : 'locked'}` : null],
    ['Marked as', [qcow2?.corrupt ? 'corrupt' : null, qcow2?.dirty ? 'not closed' : null].filter(Boolean)],
  ]);
}

/** The table with all volumes, as the alternative to the strips. */
export function volumeTable(info, onchoose) {
  const filesystem = (volume) => info.filesystems.find((candidate) => candidate.volume === volume.volume);
  return grid(info.volumes, [
    ['Volume', (volume) => el('button', { type: 'button', class: 'link', onclick: () => onchoose(volume) }, raw(volume.volume))],
    ['Contents', (volume) => volume.content ?? 'unknown'], ['Label', (volume) => filesystem(volume)?.label],
    ['Start', (volume) => (volume.start_bytes === null ? '' : bytes(volume.start_bytes)), 'wide'], ['Size', (volume) => size(volume.size_bytes)],
    ['Used', (volume) => size(filesystem(volume)?.used_bytes)], ['Problem', (volume) => volume.problem],
  ], 'Volumes');
}

export function coverageTable(files) {
  return grid(files, [
    ['File', ({ file }) => file.path], ['Format', ({ file }) => file.format],
    ['Data', ({ coverage }) => size(coverage.bytes.data)], ['Compressed', ({ coverage }) => size(coverage.bytes.compressed)],
    ['Zeroes', ({ coverage }) => size(coverage.bytes.zero)],
  ], 'Files of the image');
}
