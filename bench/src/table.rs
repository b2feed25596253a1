//! Markdown tables: rows of text, columns padded so that the source reads well.

use std::fmt::Write as _;

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        Self { rows: vec![heads] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The first column to the left, numbers to the right.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let written = if column == 0 {
                    write!(text, "| {cell:<width$} ")
                } else {
                    write!(text, "| {cell:>width$} ")
                };
                written.expect("a String takes everything");
            }
            text.push_str("|\n");
            if index == 0 {
                for (column, width) in widths.iter().enumerate() {
                    text.push_str(if column == 0 { "| :" } else { "| " });
                    text.push_str(&"-".repeat(width - 1));
                    text.push_str(if column == 0 { " " } else { ": " });
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

/// A number as people read it: thousands apart, decimals only where small.
#[must_use]
pub fn number(value: f64) -> String {
    if value.fract().abs() > 0.004 && value < 100.0 {
        return format!("{value:.2}");
    }
    // The difference of two runs may be a little less than nothing.
    let digits = format!("{:.0}", value.round() + 0.0);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number, or `n/a`.
#[must_use]
pub fn number_or_na(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_as_people_read_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (-0.001, "0"),
            (0.5, "0.50"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
