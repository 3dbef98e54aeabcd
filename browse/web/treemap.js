// Lays out and draws a treemap: rectangles whose areas are the sizes, as square as possible.

import { svg, visible } from './dom.js';
import { size } from './format.js';
import { parts } from './space-tree.js';

export const WIDTH = 800;
export const HEIGHT = 480;
const HEADER = 18;

function worst(row, sum, side) {
  const area = sum * sum;
  const square = side * side;
  return Math.max(square * row[0].area / area, area / (square * row.at(-1).area));
}

/** Places `items` (sorted, with `area`) in a rectangle: the squarified layout. */
export function squarify(items, { x, y, width, height }) {
  const placed = [];
  const waiting = [...items];
  while (waiting.length) {
    const side = Math.min(width, height);
    if (side <= 0) break;
    const row = [waiting.shift()];
    let sum = row[0].area;
    while (waiting.length && worst([...row, waiting[0]], sum + waiting[0].area, side) <= worst(row, sum, side)) {
      sum += waiting[0].area;
      row.push(waiting.shift());
    }
    const thickness = sum / side;
    let along = 0;
    for (const item of row) {
      const length = item.area / thickness;
      placed.push(width >= height
        ? { item, x, y: y + along, width: thickness, height: length } : { item, x: x + along, y, width: length, height: thickness });
      along += length;
    }
    if (width >= height) {
      x += thickness;
      width -= thickness;
    } else {
      y += thickness;
      height -= thickness;
    }
  }
  return placed;
}

function layout(node, rectangle, limit) {
  const items = parts(node, limit).sort((a, b) => b.bytes - a.bytes);
  const total = items.reduce((sum, { bytes }) => sum + bytes, 0);
  if (!total) return [];
  const scale = rectangle.width * rectangle.height / total;
  return squarify(items.map((item) => ({ ...item, area: item.bytes * scale })), rectangle);
}

const rect = ({ x, y, width, height }, name) => svg('rect', {
  x: x.toFixed(1), y: y.toFixed(1), width: Math.max(0, width - 1).toFixed(1), height: Math.max(0, height - 1).toFixed(1), class: name,
});

function label({ x, y, width, height }, text) {
  const letters = Math.floor((width - 6) / 7);
  if (letters < 3 || height < HEADER) return null;
  const shown = [...text];
  return svg('text', { x: x + 4, y: y + 13, class: 'chart-text' }, shown.length > letters ? `${shown.slice(0, letters - 1).join('')}…` : text);
}

function inner({ item, x, y, width, height }, color) {
  if (!item.node?.children.size || width < 24 || height < HEADER + 16) return [];
  return layout(item.node, { x: x + 2, y: y + HEADER, width: width - 5, height: height - HEADER - 3 }, 40)
    .filter((child) => child.width > 2 && child.height > 2)
    .flatMap((child) => [rect(child, `chart-inner ${color}`), label(child, visible(child.item.name))].filter(Boolean));
}

/** The shapes of a directory: each has its `item` and the `shape` that shows it. */
export function treemap(node) {
  return layout(node, { x: 0, y: 0, width: WIDTH, height: HEIGHT }, 200).map((place, index) => {
    const color = place.item.node ? `color-${index % 8}` : 'color-rest';
    const text = `${visible(place.item.name)} ${size(place.item.bytes)}`;
    return { item: place.item, shape: svg('g', {}, ...[rect(place, `chart-shape ${color}`), ...inner(place, color), label(place, text)].filter(Boolean)) };
  });
}
