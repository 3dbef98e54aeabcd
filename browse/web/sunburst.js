// Lays out and draws a sunburst: rings around the directory, one for each level below it.

import { svg, visible } from './dom.js';
import { size } from './format.js';
import { parts } from './space-tree.js';
import { HEIGHT, WIDTH } from './treemap.js';

const RINGS = 4;
const HOLE = 56;
const RING = (HEIGHT / 2 - HOLE - 4) / RINGS;
const SMALLEST_ANGLE = 0.012;

const point = (radius, angle) => `${(WIDTH / 2 + radius * Math.sin(angle)).toFixed(2)} ${(HEIGHT / 2 - radius * Math.cos(angle)).toFixed(2)}`;

/** The path of a ring's segment between two angles. */
export function arc(ring, from, to) {
  const inside = HOLE + ring * RING;
  const outside = inside + RING - 1;
  const end = Math.min(to, from + Math.PI * 2 - 0.0001);
  const large = end - from > Math.PI ? 1 : 0;
  return `M${point(inside, from)}L${point(outside, from)}A${outside} ${outside} 0 ${large} 1 ${point(outside, end)}`
    + `L${point(inside, end)}A${inside} ${inside} 0 ${large} 0 ${point(inside, from)}Z`;
}

function segments(node, ring, from, to, color, result) {
  const total = node.bytes || 1;
  let angle = from;
  parts(node, 100).forEach((item, index) => {
    const end = angle + (to - from) * item.bytes / total;
    if (end - angle >= SMALLEST_ANGLE) {
      const own = item.node ? color ?? `color-${index % 8}` : 'color-rest';
      result.push({ item, shape: svg('path', { d: arc(ring, angle, end), class: `chart-shape ring-${ring} ${own}` }) });
      if (item.node && ring + 1 < RINGS) segments(item.node, ring + 1, angle, end, own, result);
    }
    angle = end;
  });
}

export function sunburst(node) {
  const result = [];
  segments(node, 0, 0, Math.PI * 2, null, result);
  return result;
}

/** The text in the middle. */
export function center(node) {
  const text = [...visible(node.name)];
  return svg('g', { class: 'chart-center' },
    svg('text', { x: WIDTH / 2, y: HEIGHT / 2 - 4, class: 'chart-text middle' }, text.length > 14 ? `${text.slice(0, 13).join('')}…` : text.join('')),
    svg('text', { x: WIDTH / 2, y: HEIGHT / 2 + 14, class: 'chart-text middle' }, size(node.bytes)));
}
