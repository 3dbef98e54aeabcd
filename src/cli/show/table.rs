//! Columns.

/// Which side of its column a cell stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lays out `rows` (the first is the heading) with two spaces between columns and none at the end
/// of a line.
pub(crate) fn lay_out(align: &[Align], rows: &[Vec<String>]) -> String {
    lay_out_by("  ", align, rows)
}

/// The same, with `gap` between columns.
pub(crate) fn lay_out_by(gap: &str, align: &[Align], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..align.len()).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(align)
            .zip(&widths)
            .map(|((cell, align), width)| {
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => format!("{cell}{pad}"),
                    Align::Right => format!("{pad}{cell}"),
                }
            });
        let line = cells.collect::<Vec<_>>().join(gap);
        out.push_str(line.trim_end());
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
