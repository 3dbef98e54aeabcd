// Computes where volumes are on the disk, and a scale that keeps tiny partitions wide enough to be clicked.

const SMALLEST = 0.015;

/** The names of the volumes that a volume is made of. */
function parentsOf(volume, info) {
  if (volume.volume.endsWith('/luks')) return [volume.volume.slice(0, -'/luks'.length)];
  if (volume.logical) {
    const group = info.volume_groups.find(({ name }) => name === volume.logical.group);
    return (group?.physical_volumes ?? []).map((physical) => physical.volume).filter(Boolean);
  }
  const array = info.arrays.find((candidate) => candidate.volume === volume.volume);
  return array ? array.members.filter(Boolean) : [];
}

const hull = (places) => {
  const start = Math.min(...places.map((place) => place.start));
  return { start, length: Math.max(...places.map((place) => place.start + place.length)) - start };
};

/** The volumes that share a range of the disk, such as the logical volumes of a group. */
function groupByParents(volumes, info) {
  const groups = new Map();
  for (const volume of volumes) {
    const parents = parentsOf(volume, info);
    const key = parents.join('\0');
    if (!groups.has(key)) groups.set(key, { parents, members: [], group: volume.logical?.group });
    groups.get(key).members.push(volume);
  }
  return [...groups.values()];
}

function placeGroup({ parents, members, group }, info, placed) {
  const places = parents.map((name) => placed.get(name)).filter(Boolean);
  if (!places.length || places.length < parents.length) return false;
  const range = hull(places);
  const free = info.volume_groups.find(({ name }) => name === group)?.free_bytes ?? 0;
  const total = members.reduce((sum, { size_bytes: size }) => sum + size, free) || 1;
  const scale = members.length === 1 && !group ? range.length / (members[0].size_bytes || 1) : range.length / total;
  let start = range.start;
  for (const volume of members) {
    const length = volume.size_bytes * scale;
    const depth = 1 + Math.max(...places.map((place) => place.depth));
    placed.set(volume.volume, { start, length, depth, volume, isExact: false });
    start += length;
  }
  return true;
}

/** A map from the name of a volume to its place: `start` and `length` in bytes of the disk, and its nesting `depth`. */
export function placeVolumes(info) {
  const placed = new Map();
  const nested = [];
  for (const volume of info.volumes) {
    if (volume.start_bytes === null || parentsOf(volume, info).length) nested.push(volume);
    else placed.set(volume.volume, { start: volume.start_bytes, length: volume.size_bytes, depth: 0, volume, isExact: true });
  }
  let waiting = groupByParents(nested, info);
  for (let before = Infinity; waiting.length && waiting.length < before;) {
    before = waiting.length;
    waiting = waiting.filter((group) => !placeGroup(group, info, placed));
  }
  return placed;
}

/** The ranges of the disk that store a file: the extents of `stat`, moved to where their volume is. */
export function extentRanges(entry, placed) {
  const place = placed.get(entry.volume);
  if (!place) return [];
  const scale = place.isExact ? 1 : place.length / (place.volume.size_bytes || 1);
  return (entry.extents ?? []).filter((extent) => extent.volume_offset_bytes !== null)
    .map((extent) => ({ start: place.start + extent.volume_offset_bytes * scale, length: extent.length_bytes * scale }));
}

/** The ranges of the disk that no partition covers. */
export function gaps(places, size) {
  const result = [];
  let end = 0;
  for (const { start, length } of [...places].sort((a, b) => a.start - b.start)) {
    if (start > end) result.push({ start: end, length: start - end });
    end = Math.max(end, start + length);
  }
  if (end < size) result.push({ start: end, length: size - end });
  return result;
}

/**
 * A function from an offset to a fraction of the width. It is linear, except that partitions which would be too
 * narrow get the smallest width, at the expense of the others.
 */
export function makeScale(places, size) {
  const edges = [...new Set([0, size, ...places.flatMap(({ start, length }) => [start, start + length])])]
    .filter((edge) => edge >= 0 && edge <= size).sort((a, b) => a - b);
  const isPartition = (from, to) => places.some(({ start, length }) => start <= from && start + length >= to);
  const pieces = edges.slice(1).map((end, index) => ({ start: edges[index], length: end - edges[index] }));
  const smallest = Math.min(SMALLEST, 0.5 / Math.max(1, pieces.length));
  for (const piece of pieces) {
    const share = piece.length / (size || 1);
    piece.isFixed = share < smallest && isPartition(piece.start, piece.start + piece.length);
    piece.width = piece.isFixed ? smallest : share;
  }
  const fixed = pieces.filter((piece) => piece.isFixed).length * smallest;
  const rest = pieces.filter((piece) => !piece.isFixed).reduce((sum, piece) => sum + piece.width, 0) || 1;
  let left = 0;
  for (const piece of pieces) {
    if (!piece.isFixed) piece.width *= (1 - fixed) / rest;
    piece.left = left;
    left += piece.width;
  }
  return (offset) => {
    const piece = pieces.findLast(({ start }) => start <= offset) ?? pieces[0];
    if (!piece) return 0;
    return Math.min(1, piece.left + piece.width * Math.min(1, (offset - piece.start) / (piece.length || 1)));
  };
}

const BUCKETS = 240;

/** Sums the ranges of one file of the image's chain in slices of the strip. */
export class Coverage {
  constructor(scale) {
    this.scale = scale;
    this.kinds = { data: new Float64Array(BUCKETS), compressed: new Float64Array(BUCKETS), zero: new Float64Array(BUCKETS) };
    this.bytes = { data: 0, compressed: 0, zero: 0 };
    this.extents = [];
  }

  add(extent) {
    const sums = this.kinds[extent.kind];
    if (!sums) return;
    this.extents.push(extent);
    this.bytes[extent.kind] += extent.length_bytes;
    const start = this.scale(extent.offset_bytes) * BUCKETS;
    const end = this.scale(extent.offset_bytes + extent.length_bytes) * BUCKETS;
    for (let bucket = Math.floor(start); bucket < Math.min(BUCKETS, end); bucket++) {
      sums[bucket] += Math.min(end, bucket + 1) - Math.max(start, bucket);
    }
  }

  #classify(bucket) {
    const stored = this.kinds.data[bucket] + this.kinds.compressed[bucket];
    if (stored > 0.995) return this.kinds.compressed[bucket] > 0.5 ? 'compressed' : 'data';
    if (stored > 0.0001) return stored > 0.5 ? 'mostly' : 'partly';
    return this.kinds.zero[bucket] > 0.0001 ? 'zero' : 'hole';
  }

  /** Runs of slices that look the same: `left` and `width` as fractions, and the `kind`. */
  runs() {
    const result = [];
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const kind = this.#classify(bucket);
      if (result.at(-1)?.kind === kind) result.at(-1).width += 1 / BUCKETS;
      else result.push({ kind, left: bucket / BUCKETS, width: 1 / BUCKETS });
    }
    return result;
  }

  extentsBetween(left, right) {
    return this.extents.filter((extent) =>
      this.scale(extent.offset_bytes + extent.length_bytes) > left && this.scale(extent.offset_bytes) < right);
  }
}
