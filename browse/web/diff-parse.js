// Parses unified diffs, and pairs removed with added lines so that they can be shown side by side.

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

function readHunk(lines, start, header) {
  const [, from, fromCount = '1', to, toCount = '1'] = header;
  const hunk = { header: header[0], from: Number(from), to: Number(to), lines: [] };
  let left = Number(fromCount);
  let right = Number(toCount);
  let at = start;
  while (at < lines.length && (left > 0 || right > 0 || lines[at].startsWith('\\'))) {
    const sign = lines[at][0] ?? ' ';
    if (sign === '\\') {
      if (hunk.lines.length) hunk.lines.at(-1).hasNoNewline = true;
    } else {
      hunk.lines.push({ sign, text: lines[at].slice(1) });
      if (sign !== '+') left--;
      if (sign !== '-') right--;
    }
    at++;
  }
  return { hunk, end: at };
}

/** The files of a unified diff. Lines between files, such as those of a dry run, become headings. */
export function parseDiff(text) {
  const files = [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  let file = null;
  const begin = (heading) => {
    file = { heading, from: null, to: null, hunks: [] };
    files.push(file);
  };
  for (let at = 0; at < lines.length; at++) {
    const header = HUNK.exec(lines[at]);
    if (header) {
      if (!file) begin('');
      const { hunk, end } = readHunk(lines, at + 1, header);
      file.hunks.push(hunk);
      at = end - 1;
    } else if (lines[at].startsWith('--- ') && lines[at + 1]?.startsWith('+++ ')) {
      if (!file || file.from !== null) begin('');
      file.from = lines[at].slice(4).split('\t')[0];
      file.to = lines[at + 1].slice(4).split('\t')[0];
      at++;
    } else begin(lines[at]);
  }
  return files;
}

/** Rows of a hunk: `left` and `right` are lines with their `number`, or null. */
export function sideBySide(hunk) {
  const rows = [];
  let left = hunk.from;
  let right = hunk.to;
  let removed = [];
  let added = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index++) {
      rows.push({ kind: 'changed', left: removed[index] ?? null, right: added[index] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const { sign, text, hasNoNewline } of hunk.lines) {
    if (sign === '-') removed.push({ number: left++, text, hasNoNewline });
    else if (sign === '+') added.push({ number: right++, text, hasNoNewline });
    else {
      flush();
      rows.push({ kind: 'same', left: { number: left++, text, hasNoNewline }, right: { number: right++, text, hasNoNewline } });
    }
  }
  flush();
  return rows;
}
