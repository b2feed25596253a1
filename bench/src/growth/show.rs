//! The curves as tables and charts.

use std::fmt::Write as _;

use super::{Curve, Growth, Law, Point, Series};
use crate::chart::LineChart;
use crate::table::{Table, number, number_or_na};

/// Every curve as a Markdown table.
#[must_use]
pub fn write(growth: &Growth) -> String {
    let mut text = String::from(INTRODUCTION);
    if growth.quick {
        text.push_str("\n`--quick`: caudal alone, with fewer points.\n");
    }
    for curve in &growth.curves {
        write_curve(&mut text, curve);
    }
    text
}

fn write_curve(text: &mut String, curve: &Curve) {
    let law = curve.law.describe();
    let _ = write!(text, "\n### {}: {law}\n\n", curve.title);
    let _ = write!(text, "{}\n\n", capital(curve.each));
    let linear = curve.law != Law::Constant;
    let per = |point: &Point| if linear { point.x } else { 1.0 };
    text.push_str(&table(curve, true, |point| Some(point.cost / per(point))));
    if has_allocations(curve) {
        let of = if linear { "in all" } else { "per call" };
        let _ = write!(text, "\nAllocations {of}\n\n");
        text.push_str(&table(curve, false, |point| point.allocations));
    }
}

/// A column for each contestant, a row for each size; at the end the comparison.
fn table(curve: &Curve, compared: bool, of: impl Fn(&Point) -> Option<f64>) -> String {
    let names = curve.series.iter().map(|series| series.name);
    let heads: Vec<&str> = std::iter::once(curve.x).chain(names).collect();
    let mut table = Table::new(&heads);
    for x in sizes(curve) {
        let cell = |series: &Series| {
            let point = series.points.iter().find(|point| point.x == x);
            number_or_na(point.and_then(&of))
        };
        let cells = curve.series.iter().map(cell);
        table.row(std::iter::once(number(x)).chain(cells).collect());
    }
    if compared {
        let label = format!("{} (≤ {})", curve.law.compares(), curve.law.bound());
        let cells = curve.series.iter().map(|series| {
            let growth = series.growth;
            growth.map_or_else(|| "n/a".to_owned(), |growth| format!("{growth:.2}"))
        });
        table.row(std::iter::once(label).chain(cells).collect());
    }
    table.to_markdown()
}

/// All sizes of a curve: not everybody has a point at each.
fn sizes(curve: &Curve) -> Vec<f64> {
    let points = curve.series.iter().flat_map(|series| &series.points);
    let mut sizes: Vec<f64> = points.map(|point| point.x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

fn has_allocations(curve: &Curve) -> bool {
    let mut points = curve.series.iter().flat_map(|series| &series.points);
    points.any(|point| point.allocations.is_some())
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A chart for each curve: the name of its file, without what follows the dot, and
/// the SVG.
#[must_use]
pub fn charts(growth: &Growth) -> Vec<(&'static str, String)> {
    let chart = |curve: &Curve| {
        let law = curve.law.describe();
        let series = curve.series.iter().map(|series| {
            let points = series.points.iter();
            let points = points.map(|point| (point.x, point.cost)).collect();
            (series.name.to_owned(), points)
        });
        let chart = LineChart {
            title: format!("{}: {law}", curve.title),
            x: curve.x.replace('`', ""),
            y: curve.y.replace('`', ""),
            series: series.collect(),
        };
        (curve.name, chart.to_svg())
    };
    growth.curves.iter().map(chart).collect()
}

const INTRODUCTION: &str = "
## How cost grows

Counted by callgrind and by a counting allocator, not timed. *Constant*: the cost at
the largest is at most 1.25 times the least of all points. *Linear*: between the last two
points each unit more costs at most 1.1 times what it cost one step before (1.25 for
memory, which is counted in pages). caudal is `Router::handle`, caudal-core the codec
with a handler written by hand, jsonrpsee what its server does with the bytes of a
request; caudal takes no batch of more than 1,000 unless it is told to. Of calls that
wait, *both ends* is all that two peers of `Peer::pair` do for a call: it waits in the
table of one and in a handler of the other.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn growth() -> Growth {
        let point = |x: f64| Point {
            x,
            cost: 500.0 + 12.0 * x,
            allocations: Some(2.0),
        };
        let series = |name, sizes: &[f64]| {
            let points = sizes.iter().copied().map(point).collect();
            Series::new(name, points, Law::Linear)
        };
        Growth {
            quick: true,
            curves: vec![Curve {
                name: "growth-size",
                title: "Size",
                x: "bytes",
                y: "instructions",
                each: "instructions per byte",
                law: Law::Linear,
                series: vec![
                    series("caudal", &[10.0, 100.0, 1_000.0]),
                    series("value", &[10.0, 100.0]),
                ],
            }],
        }
    }

    #[test]
    fn a_table_has_every_size_and_the_comparison() {
        let text = write(&growth());
        assert!(text.contains("| 1,000 "), "{text}");
        assert!(text.contains("n/a"), "{text}");
        assert!(text.contains("(≤ 1.1)"), "{text}");
        assert_eq!(super::super::targets(&growth()).len(), 1);
    }

    #[test]
    fn every_curve_has_a_chart_and_every_point_is_in_the_json() {
        let growth = growth();
        let charts = charts(&growth);
        assert_eq!(charts[0].0, "growth-size");
        assert!(charts[0].1.starts_with("<svg "));
        let json = serde_json::to_value(&growth).unwrap();
        assert_eq!(json["curves"][0]["series"][0]["points"][2]["x"], 1_000.0);
        assert_eq!(json["curves"][0]["law"], "linear");
    }
}
