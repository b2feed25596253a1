//! What the design says of a curve, and how far the points are from it.

use serde::Serialize;

use super::Point;

/// How a cost may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Law {
    /// Not at all: the cost at the largest is at most 1.25 times the least of all
    /// points, so that what a small number has to bear alone hides nothing.
    Constant,
    /// In proportion: between the last two points each unit more costs at most 1.1
    /// times what it cost between the two before. What a message costs whatever its
    /// size is in none of these differences.
    Linear,
    /// The same, of memory that is counted in pages: at most 1.25 times.
    Pages,
}

impl Law {
    /// What [`growth`](Self::growth) may be at most.
    #[must_use]
    pub const fn bound(self) -> f64 {
        match self {
            Self::Constant | Self::Pages => 1.25,
            Self::Linear => 1.1,
        }
    }

    /// What is compared, in words.
    #[must_use]
    pub const fn compares(self) -> &'static str {
        match self {
            Self::Constant => "cost at the largest, × the least",
            Self::Linear | Self::Pages => "cost of one more, × one step before",
        }
    }

    /// The law in words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear | Self::Pages => "linear",
        }
    }

    /// How much the cost grows beyond the law; `None` if there are too few points.
    #[must_use]
    pub(super) fn growth(self, points: &[Point]) -> Option<f64> {
        let slope = |a: &Point, b: &Point| (b.cost - a.cost) / (b.x - a.x);
        match (self, points) {
            (Self::Constant, [_, .., last]) => {
                let costs = points.iter().map(|point| point.cost);
                Some(last.cost / costs.fold(f64::INFINITY, f64::min))
            }
            (Self::Linear | Self::Pages, [.., a, b, c]) => Some(slope(b, c) / slope(a, b)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(cost: impl Fn(f64) -> f64) -> Vec<Point> {
        let point = |x: f64| Point {
            x,
            cost: cost(x),
            allocations: None,
        };
        [1.0, 10.0, 100.0, 1_000.0, 10_000.0].map(point).into()
    }

    fn holds(law: Law, cost: impl Fn(f64) -> f64) -> bool {
        law.growth(&points(cost)).unwrap() <= law.bound()
    }

    #[test]
    fn what_does_not_grow_is_constant() {
        assert!(holds(Law::Constant, |_| 2_500.0));
        assert!(holds(Law::Constant, |x| 2_500.0 + x.log2()));
        assert!(!holds(Law::Constant, |x| 2_500.0 + x));
        // Dear at first, cheap in the middle, dear again.
        assert!(!holds(Law::Constant, |x| 2_500.0 + 2_500.0 / x + x / 10.0));
        assert!(!holds(Law::Constant, |x| 100.0 * (1.0 + x.log2())));
    }

    #[test]
    fn what_grows_in_proportion_is_linear_whatever_it_costs_at_first() {
        assert!(holds(Law::Linear, |x| 12.0 * x));
        assert!(holds(Law::Linear, |x| 90_000.0 + 12.0 * x));
        assert!(holds(Law::Linear, |x| 90_000.0 + x.sqrt()));
        assert!(!holds(Law::Linear, |x| x * x));
        assert!(!holds(Law::Linear, |x| 12.0 * x * x.log2()));
    }

    #[test]
    fn too_few_points_say_nothing() {
        let two = &points(|x| x)[..2];
        assert_eq!(Law::Linear.growth(two), None);
        assert_eq!(Law::Constant.growth(&two[..1]), None);
        assert_eq!(Law::Constant.growth(two), Some(10.0));
    }
}
