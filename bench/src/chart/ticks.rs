//! Where the lines of an axis are, and what stands at them.

/// A logarithmic axis.
pub(super) struct Log {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Log {
    /// An axis from the least to the greatest, out to the next tick: at each power
    /// of ten, or at 1, 2 and 5 if there are few of them.
    pub(super) fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let values = values.filter(|value| *value > 0.0);
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let greatest = values.fold(0.0, f64::max);
        if greatest == 0.0 {
            return Self::between(1.0, 10.0);
        }
        // A flat line shall look flat: never less than a power of ten.
        let middle = (least * greatest).sqrt();
        let least = least.min(middle / 10_f64.sqrt());
        let greatest = greatest.max(middle * 10_f64.sqrt());
        Self::between(least, greatest)
    }

    /// An axis from `least` to `greatest` or a bit more.
    pub(super) fn between(least: f64, greatest: f64) -> Self {
        let steps: &[f64] = match (greatest / least).log10() {
            ..2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let first = least.log10().floor() as i32;
        let last = greatest.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| {
            let ten = 10_f64.powi(power);
            steps.iter().map(move |step| step * ten)
        });
        // Powers of ten are not exact.
        let all: Vec<f64> = all.collect();
        let low = all.iter().rfind(|tick| **tick <= least * 1.000_001);
        let high = all.iter().find(|tick| **tick >= greatest * 0.999_999);
        let low = low.copied().unwrap_or(least);
        let high = high.copied().unwrap_or(greatest);
        Self {
            low,
            high,
            ticks: all
                .into_iter()
                .filter(|tick| (low..=high).contains(tick))
                .collect(),
        }
    }

    /// How far along the axis, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
    }
}

/// Round ticks from 0 to `greatest` or a bit more, about five.
pub(super) fn linear(greatest: f64) -> Vec<f64> {
    if greatest <= 0.0 {
        return vec![0.0, 1.0];
    }
    let ten = 10_f64.powf((greatest / 5.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * ten);
    let fits = |step: &f64| greatest / step <= 5.000_001;
    let step = steps.into_iter().find(fits).unwrap_or(10.0 * ten);
    let count = (greatest / step - 0.000_001).ceil() as u32;
    (0..=count).map(|tick| f64::from(tick) * step).collect()
}

/// A number in few letters: `950`, `1.75 K`, `12.3 M`.
pub(super) fn short(value: f64) -> String {
    let units = [
        (1e9, "\u{a0}G"),
        (1e6, "\u{a0}M"),
        (1e3, "\u{a0}K"),
        (1.0, ""),
    ];
    // What would be rounded to 1000 of a unit is 1 of the next.
    let unit = units.iter().find(|(unit, _)| value.abs() >= unit * 0.9995);
    let (unit, letter) = unit.copied().unwrap_or((1.0, ""));
    let value = value / unit;
    let text = match value.abs() {
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ticks: &[f64]) -> Vec<String> {
        let shown = ticks.iter().map(|tick| short(*tick));
        shown.map(|text| text.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn a_long_axis_has_powers_of_ten() {
        let axis = Log::around([150.0, 2e6].into_iter());
        let ticks = ["100", "1 K", "10 K", "100 K", "1 M", "10 M"];
        assert_eq!(shown(&axis.ticks), ticks);
        assert_eq!(axis.place(100.0), 0.0);
        assert!((axis.place(1e7) - 1.0).abs() < 1e-9);
        assert!((axis.place(1e4) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_short_axis_has_more_and_a_flat_line_looks_flat() {
        let axis = Log::around([1000.0, 1100.0].into_iter());
        assert_eq!(shown(&axis.ticks), ["200", "500", "1 K", "2 K", "5 K"]);
        assert!(axis.place(1100.0) - axis.place(1000.0) < 0.05);
    }

    #[test]
    fn an_axis_ends_where_a_power_of_ten_does() {
        let axis = Log::between(1.0, 10_000.0);
        assert_eq!(shown(&axis.ticks), ["1", "10", "100", "1 K", "10 K"]);
        assert_eq!(Log::around(std::iter::empty()).ticks.first(), Some(&1.0));
    }

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(
            shown(&linear(4_700.0)),
            ["0", "1 K", "2 K", "3 K", "4 K", "5 K"]
        );
        assert_eq!(shown(&linear(1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(shown(&linear(12.0)), ["0", "2.5", "5", "7.5", "10", "12.5"]);
    }

    #[test]
    fn numbers_are_short() {
        let values = [
            0.0, 0.456, 9.5, 950.0, 999.96, 1_746.0, 12_345.0, 999_999.0, 2.5e9,
        ];
        let texts = [
            "0", "0.46", "9.5", "950", "1 K", "1.75 K", "12.3 K", "1 M", "2.5 G",
        ];
        assert_eq!(shown(&values), texts);
    }
}
