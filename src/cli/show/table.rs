//! Layout of tables in columns.

/// The alignment of cells in their column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lays out `rows`, of which the first is the heading, with two spaces between columns and none at
/// the end of a line.
pub(crate) fn lay_out(align: &[Align], rows: &[Vec<String>]) -> String {
    lay_out_by("  ", align, rows)
}

/// Lays out `rows` like [`lay_out`], with `gap` between columns.
pub(crate) fn lay_out_by(gap: &str, align: &[Align], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..align.len()).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let line = out.len();
        for (column, ((cell, align), width)) in row.iter().zip(align).zip(&widths).enumerate() {
            if column > 0 {
                out.push_str(gap);
            }
            let pad = std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => {
                    out.push_str(cell);
                    out.extend(pad);
                }
                Align::Right => {
                    out.extend(pad);
                    out.push_str(cell);
                }
            }
        }
        let end = line + out[line..].trim_end().len();
        out.truncate(end);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a", "1", ""], ["bbb", "22", "x"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = lay_out(&[Align::Left, Align::Right, Align::Left], &rows);
        assert_eq!(text, "a     1\nbbb  22  x\n");
    }
}
