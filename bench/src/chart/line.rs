//! Lines over two logarithmic axes.

use super::ticks::{Log, short};
use super::{Anchor, Drawing, FAINT, GRID, INK, WIDTH, colour, is_own, width};

/// Several lines, each with a name; caudal's is the strong one.
#[derive(Clone, Debug)]
pub struct LineChart {
    pub title: String,
    /// What stands under the one axis and beside the other.
    pub x: String,
    pub y: String,
    /// A point that is not above 0 has no place and is left out.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// A line's name and points.
type Named = (String, Vec<(f64, f64)>);

const LEFT: f64 = 74.0;
const RIGHT: f64 = 28.0;
const PLOT: f64 = 280.0;
const LEGEND: f64 = 22.0;

impl LineChart {
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut drawing = Drawing::new(&self.title);
        let top = self.legend(&mut drawing) + 38.0;
        let bottom = top + PLOT;
        drawing.text(16.0, top - 14.0, Anchor::Start, &self.y, FAINT);

        let points = || self.series.iter().flat_map(|(_, points)| points);
        let across = {
            let values = points().map(|point| point.0).filter(|value| *value > 0.0);
            let least = values.clone().fold(f64::INFINITY, f64::min);
            let most = values.fold(0.0, f64::max);
            match least < most {
                true => Log::between(least, most),
                false => Log::between(1.0, 10.0),
            }
        };
        let up = Log::around(points().map(|point| point.1));
        let place = |(x, y): (f64, f64)| {
            let across = LEFT + across.place(x) * (WIDTH - LEFT - RIGHT);
            (across, bottom - up.place(y) * PLOT)
        };

        for tick in &up.ticks {
            let (_, y) = place((across.low, *tick));
            drawing.line((LEFT, y), (WIDTH - RIGHT, y), GRID);
            drawing.text(LEFT - 8.0, y + 4.0, Anchor::End, &short(*tick), FAINT);
        }
        for tick in &across.ticks {
            let (x, _) = place((*tick, up.low));
            drawing.line((x, top), (x, bottom), GRID);
            drawing.text(x, bottom + 18.0, Anchor::Middle, &short(*tick), FAINT);
        }
        drawing.line((LEFT, bottom), (WIDTH - RIGHT, bottom), FAINT);
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        drawing.text(middle, bottom + 40.0, Anchor::Middle, &self.x, INK);

        // caudal last, so that it lies above the others.
        for own in [false, true] {
            for (index, (name, points)) in self.coloured() {
                if is_own(name) == own {
                    let points = points.iter().copied();
                    let points = points.filter(|(x, y)| *x > 0.0 && *y > 0.0);
                    stroke(&mut drawing, name, colour(name, index), points.map(place));
                }
            }
        }
        drawing.finish(&self.title, bottom + 54.0)
    }

    /// Each line, with its place among those that are not caudal's.
    fn coloured(&self) -> impl Iterator<Item = (usize, &Named)> {
        let mut others = 0;
        self.series.iter().map(move |series| {
            let index = others;
            others += usize::from(!is_own(&series.0));
            (index, series)
        })
    }

    /// The names in rows; returns where they end.
    fn legend(&self, drawing: &mut Drawing) -> f64 {
        let (mut x, mut y) = (16.0, 54.0);
        for (index, (name, _)) in self.coloured() {
            let wide = 28.0 + width(name) + 16.0;
            if x + wide > WIDTH - 16.0 {
                (x, y) = (16.0, y + LEGEND);
            }
            let at = [(x, y - 4.0), (x + 20.0, y - 4.0)];
            stroke(drawing, name, colour(name, index), at.into_iter());
            drawing.text(x + 28.0, y, Anchor::Start, name, INK);
            x += wide;
        }
        y
    }
}

/// A line through the points, with a dot at each.
fn stroke(
    drawing: &mut Drawing,
    name: &str,
    colour: &str,
    points: impl Iterator<Item = (f64, f64)>,
) {
    let points: Vec<(f64, f64)> = points.collect();
    let (thick, dot) = if is_own(name) { (3.0, 4.0) } else { (1.8, 3.2) };
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    drawing.put(format_args!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{thick}\" \
         stroke-linejoin=\"round\"/>",
        path.join(" ")
    ));
    for (x, y) in points {
        drawing.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{dot}\" fill=\"{colour}\" stroke=\"#ffffff\"/>"
        ));
    }
}
