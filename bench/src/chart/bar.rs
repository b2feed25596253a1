//! Horizontal bars, in groups if there are several; the number stands at each.

use super::ticks::{Log, linear, short};
use super::{Anchor, Drawing, FAINT, GRID, INK, OWN, OWN_PART, WIDTH, is_own, width};

/// Bars that are as long as their figures, caudal's in its colour.
#[derive(Clone, Debug)]
pub struct BarChart {
    pub title: String,
    /// What the figures are: stands under the axis.
    pub unit: String,
    /// A heading and its bars; without a heading it has no line for it.
    pub groups: Vec<(String, Vec<(String, f64)>)>,
    /// The name of the bars that are highlighted.
    pub highlight: String,
    pub scale: Scale,
}

/// How a figure becomes a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// For figures that differ by powers of ten; the axis does not begin at 0.
    Log,
}

const BAR: f64 = 20.0;
const STEP: f64 = 27.0;
const HEADING: f64 = 26.0;
/// Between groups.
const GAP: f64 = 10.0;
/// Room for the number at the longest bar.
const RIGHT: f64 = 76.0;

const PLAIN: &str = "#98a2ad";

impl BarChart {
    #[must_use]
    pub fn to_svg(&self) -> String {
        const TOP: f64 = 46.0;
        let mut drawing = Drawing::new(&self.title);
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let names = bars().map(|(name, _)| width(name));
        let left = 16.0 + names.fold(60.0, f64::max) + 12.0;
        let length = WIDTH - left - RIGHT;
        let (ticks, place): (Vec<f64>, Box<dyn Fn(f64) -> f64>) = match self.scale {
            Scale::Linear => {
                let ticks = linear(bars().map(|bar| bar.1).fold(0.0, f64::max));
                let last = ticks.last().copied().unwrap_or(1.0);
                (ticks, Box::new(move |value| value.max(0.0) / last))
            }
            Scale::Log => {
                // Half of the least, so that its bar has a length too.
                let halves = bars().flat_map(|bar| [bar.1 / 2.0, bar.1]);
                let axis = Log::around(halves.collect::<Vec<_>>().into_iter());
                (axis.ticks.clone(), Box::new(move |value| axis.place(value)))
            }
        };
        let bottom = TOP + self.height();
        for tick in ticks {
            let x = left + place(tick) * length;
            drawing.line((x, TOP), (x, bottom), GRID);
            drawing.text(x, bottom + 18.0, Anchor::Middle, &short(tick), FAINT);
        }
        let mut y = TOP + GAP / 2.0;
        for (heading, bars) in &self.groups {
            if !heading.is_empty() {
                let bold = " font-weight=\"600\"";
                drawing.styled(16.0, y + 17.0, Anchor::Start, heading, "13", INK, bold);
                y += HEADING;
            }
            for (name, value) in bars {
                let own = *name == self.highlight;
                let weight = if own { " font-weight=\"600\"" } else { "" };
                let colour = match own {
                    true => OWN,
                    false if is_own(name) => OWN_PART,
                    false => PLAIN,
                };
                let text = y + 14.5;
                drawing.styled(left - 8.0, text, Anchor::End, name, "12.5", INK, weight);
                let wide = place(*value) * length;
                drawing.bar((left, y), (wide.max(1.0), BAR), colour);
                let at = left + wide + 6.0;
                drawing.styled(at, text, Anchor::Start, &short(*value), "12.5", INK, weight);
                y += STEP;
            }
            y += GAP;
        }
        drawing.line((left, TOP), (left, bottom), FAINT);
        let middle = left + length / 2.0;
        drawing.text(middle, bottom + 40.0, Anchor::Middle, &self.unit, FAINT);
        drawing.finish(&self.title, bottom + 54.0)
    }

    fn height(&self) -> f64 {
        let group = |(heading, bars): &(String, Vec<(String, f64)>)| {
            let heading = if heading.is_empty() { 0.0 } else { HEADING };
            heading + bars.len() as f64 * STEP + GAP
        };
        self.groups.iter().map(group).sum()
    }
}
