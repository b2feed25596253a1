//! Turns: in each round every contestant takes one, so that a noisy moment hits all of them.

/// A median and its quartiles. Extremes would only tell how busy the machine was.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

/// Lets every contestant take a turn, once in each round.
///
/// Returns the turns of each contestant, in the order of the contestants.
///
/// # Errors
/// A turn failed.
pub fn take<C, T>(
    rounds: usize,
    contestants: &mut [C],
    mut turn: impl FnMut(&mut C) -> Result<T, String>,
) -> Result<Vec<Vec<T>>, String> {
    let mut turns: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (contestant, turns) in contestants.iter_mut().zip(&mut turns) {
            turns.push(turn(contestant)?);
        }
    }
    Ok(turns)
}

/// Returns the median of a figure over the turns of one contestant.
pub fn median<T>(turns: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    Spread::of(turns.iter().map(figure).collect()).median
}

/// Returns the ratios of a figure to that of another contestant in the same round.
///
/// The median of these ratios is not the quotient of two medians.
pub fn ratio<T>(turns: &[T], base: &[T], figure: impl Fn(&T) -> f64) -> Spread {
    let both = turns.iter().zip(base);
    Spread::of(both.map(|(a, b)| figure(a) / figure(b)).collect())
}

impl Spread {
    /// Returns the quartiles of at least one sample.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let count = samples.len();
        Self {
            lower: samples[count / 4],
            median: f64::midpoint(samples[(count - 1) / 2], samples[count / 2]),
            upper: samples[count * 3 / 4],
        }
    }
}

impl std::fmt::Display for Spread {
    /// Writes a small ratio with another digit, so that two of them differ.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.median < 0.1 { 3 } else { 2 };
        let Self {
            lower,
            median,
            upper,
        } = self;
        write!(f, "{median:.digits$} ({lower:.digits$}–{upper:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, ratio, take};

    #[test]
    fn a_median_has_as_many_samples_below_as_above() {
        for (samples, median) in [
            (vec![2.0], 2.0),
            (vec![4.0, 1.0], 2.5),
            (vec![9.0, 1.0, 2.0], 2.0),
            (vec![9.0, 1.0, 2.0, 4.0], 3.0),
        ] {
            assert_eq!(Spread::of(samples).median, median);
        }
    }

    #[test]
    fn contestants_take_turns() {
        let mut order = Vec::new();
        let turns = take(2, &mut ['a', 'b'], |name| {
            order.push(*name);
            Ok(order.len())
        });
        assert_eq!(turns, Ok(vec![vec![1, 3], vec![2, 4]]));
        assert_eq!(order, ['a', 'b', 'a', 'b']);
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let both = ratio(&[2.0, 30.0, 4.0], &[1.0, 10.0, 4.0], |turn| *turn);
        assert_eq!(both.to_string(), "2.00 (1.00–3.00)");
    }
}
