//! Charts as SVG, to the byte the same for the same figures.
//!
//! Written by hand: two kinds of chart need no library, and a code-hosting page
//! shows a plain file. A white ground lies under everything, so that they read in
//! dark mode too.

mod bar;
mod line;
mod ticks;

use std::fmt::Write as _;

pub use bar::{BarChart, Scale};
pub use line::LineChart;

/// As wide as a README shows without making it smaller.
const WIDTH: f64 = 760.0;

const FONT: &str =
    "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif";
const INK: &str = "#1f2328";
const FAINT: &str = "#59636e";
const GRID: &str = "#e4e8ec";

/// caudal's, the same in every chart.
const OWN: &str = "#0b5cd6";
/// Of what is a part of caudal.
const OWN_PART: &str = "#6aa5f7";
const OTHERS: [&str; 6] = [
    "#d9730d", "#2f9e5f", "#8a5cc9", "#b8860b", "#c2406b", "#6b7683",
];

/// A drawing under construction.
struct Drawing {
    body: String,
}

/// Where a text's given point is.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    fn new(title: &str) -> Self {
        let mut drawing = Self {
            body: String::new(),
        };
        drawing.styled(
            16.0,
            28.0,
            Anchor::Start,
            title,
            "16",
            INK,
            " font-weight=\"600\"",
        );
        drawing
    }

    fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str, colour: &str) {
        self.styled(x, y, anchor, text, "12.5", colour, "");
    }

    #[allow(clippy::too_many_arguments, reason = "one text has as many attributes")]
    fn styled(
        &mut self,
        x: f64,
        y: f64,
        anchor: Anchor,
        text: &str,
        size: &str,
        colour: &str,
        more: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
             fill=\"{colour}\"{more}>{text}</text>"
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ));
    }

    fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"2\" fill=\"{colour}\"/>"
        ));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}");
    }

    fn finish(self, title: &str, height: f64) -> String {
        let title = escape(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
             font-family=\"{FONT}\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH:.0}\" height=\"{height:.0}\" rx=\"6\" fill=\"#ffffff\"/>\n\
             {}</svg>\n",
            self.body
        )
    }
}

/// The colour of the `index`-th of those that are not caudal's.
fn colour(name: &str, index: usize) -> &'static str {
    match is_own(name) {
        true if name == "caudal" => OWN,
        true => OWN_PART,
        false => OTHERS[index % OTHERS.len()],
    }
}

/// Whether it is caudal, or a part of it.
fn is_own(name: &str) -> bool {
    name.starts_with("caudal")
}

/// About how wide a text is: no font is at hand to ask.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.4
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_figures_make_the_same_bytes_and_no_name_breaks_them() {
        let chart = || {
            let bars = vec![("a < b & c".to_owned(), 2.0), ("caudal".to_owned(), 1.0)];
            let chart = BarChart {
                title: "x < y".to_owned(),
                unit: "µs".to_owned(),
                groups: vec![(String::new(), bars)],
                highlight: "caudal".to_owned(),
                scale: Scale::Linear,
            };
            chart.to_svg()
        };
        let svg = chart();
        assert_eq!(svg, chart());
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("a < b"));
    }

    #[test]
    fn caudal_has_a_colour_of_its_own() {
        assert_eq!(colour("caudal", 3), OWN);
        assert_eq!(colour("caudal-core", 3), OWN_PART);
        assert_eq!(colour("value", 7), OTHERS[1]);
    }
}
