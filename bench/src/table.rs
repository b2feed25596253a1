//! Tables and targets of one scene, as Markdown.

use std::fmt::Write as _;

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// Output of a scene: tables, notes, and the targets that its figures must reach.
#[derive(Debug, Default)]
pub struct Section {
    text: String,
    pub targets: Vec<Target>,
}

/// A figure of caudal, and its bound.
#[derive(Clone, Debug)]
pub struct Target {
    subject: &'static str,
    what: String,
    bound: Bound,
    figure: Option<f64>,
    /// Repeats from run to run: it is counted and not timed.
    pub exact: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Section {
    /// Begins with a heading.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            text: format!("\n### {title}\n"),
            targets: Vec::new(),
        }
    }

    /// Adds a table below a heading of its own.
    pub fn titled(&mut self, title: &str, table: &Table) {
        let _ = write!(self.text, "\n#### {title}\n");
        self.table(table);
    }

    pub fn table(&mut self, table: &Table) {
        let _ = write!(self.text, "\n{}", table.to_markdown());
    }

    /// Adds a paragraph.
    pub fn note(&mut self, text: &str) {
        let _ = write!(self.text, "\n{}\n", text.trim());
    }

    /// Adds a target for a time, which may be missed because the machine was busy.
    pub fn timed(
        &mut self,
        subject: &'static str,
        what: impl Into<String>,
        bound: Bound,
        figure: f64,
    ) {
        self.targets.push(Target {
            subject,
            what: what.into(),
            bound,
            figure: Some(figure),
            exact: false,
        });
    }

    /// Adds a target for a count, which repeats from run to run. `None` was not counted.
    pub fn counted(
        &mut self,
        subject: &'static str,
        what: &str,
        bound: Bound,
        figure: Option<f64>,
    ) {
        self.targets.push(Target {
            subject,
            what: what.to_owned(),
            bound,
            figure,
            exact: true,
        });
    }

    #[must_use]
    pub fn to_markdown(&self) -> &str {
        &self.text
    }
}

impl Target {
    /// Returns whether the figure is within its bound; one that was not counted is.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.figure.is_none_or(|figure| match self.bound {
            Bound::AtLeast(least) => figure >= least,
            Bound::AtMost(most) => figure <= most,
        })
    }

    /// Returns the row of a table: subject, figure, bound, what was measured, verdict.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        let bound = match self.bound {
            Bound::AtLeast(least) => format!("≥ {}", number(least)),
            Bound::AtMost(most) => format!("≤ {}", number(most)),
        };
        let verdict = match (self.figure, self.holds()) {
            (None, _) => "n/a",
            (_, true) => "yes",
            (_, false) => "**no**",
        };
        vec![
            self.subject.to_owned(),
            self.what.clone(),
            bound,
            number_or_na(self.figure),
            verdict.to_owned(),
        ]
    }
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

    /// Pads the columns so that the source reads well: the first to the left, numbers to
    /// the right.
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
                let _ = match column {
                    0 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
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

/// Writes a number with thousands apart, and decimals only where it is small.
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

/// Writes a number, or `n/a`.
#[must_use]
pub fn number_or_na(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), number)
}

/// Writes nanoseconds as microseconds.
#[must_use]
pub fn micros(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}

/// Writes a share of one processor.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::{Bound, Section, number};

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

    #[test]
    fn a_target_holds_up_to_its_bound() {
        let mut section = Section::default();
        section.timed("a", "ratio", Bound::AtLeast(0.9), 0.9);
        section.timed("b", "ratio", Bound::AtLeast(0.9), 0.89);
        section.counted("c", "bytes", Bound::AtMost(8.0), Some(9.0));
        section.counted("d", "bytes", Bound::AtMost(8.0), None);
        let verdicts = section.targets.iter().map(|target| target.row()[4].clone());
        let verdicts: Vec<_> = verdicts.collect();
        assert_eq!(verdicts, ["yes", "**no**", "**no**", "n/a"]);
    }
}
