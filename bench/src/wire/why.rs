//! Why a race may end as it does: what two servers took for the same work.

use super::cost::Cost;
use super::race::{Outcome, Race};
use super::tables::percent;
use crate::table::number;
use crate::time::Spread;

impl Race {
    /// How long the processors worked for both, if that makes one of them at least `must`
    /// times as fast: who has more of them, or waits less for them, may be ahead with
    /// more work.
    pub(crate) fn worked(&self, one: &str, other: &str, must: f64) -> Option<String> {
        let (a, b) = self.pair(one, other)?;
        let cpu = |outcome: &Outcome| {
            let cpu = outcome.median(|figures| figures.server_cpu.unwrap_or(f64::NAN));
            (cpu > 0.0).then_some(cpu)
        };
        let rate = |outcome: &Outcome| outcome.median(|figures| figures.per_second);
        let (here, there) = (cpu(a)?, cpu(b)?);
        let times = rate(a) / here / (rate(b) / there);
        (times >= must).then(|| {
            format!(
                "{one} had {} of a processor, {other} {}: for the same time of a processor it \
                 answers {} × as many",
                percent(here),
                percent(there),
                number(times),
            )
        })
    }

    /// What one did over what another did in the half of the rounds in which the two threads
    /// of its server that worked most were on one processor more of the time, and in the
    /// other half, if somebody looked: the kernel places them, and not the server.
    pub(crate) fn placed(&self, one: &str, other: &str) -> Option<String> {
        let (a, b) = self.pair(one, other)?;
        let rounds = a.rounds.iter().zip(&b.rounds);
        let rounds = rounds.filter_map(|(a, b)| {
            let key = self.scene.key;
            Some((a.together?, key.value(a) / key.value(b)))
        });
        let halves = halves(rounds.collect())?;
        let [apart, together] = halves.map(|(share, ratio)| (percent(share), number(ratio)));
        Some(format!(
            "the kernel had the two threads of {one} on one processor, where they leave the \
             other to the generator, {} of the time in one half of the rounds, and there it is \
             {}, and {} of the time in the other half, where it is {}",
            together.0, together.1, apart.0, apart.1,
        ))
    }

    /// How often both ask the kernel for one call.
    pub(crate) fn asked(&self, one: &str, other: &str) -> Option<String> {
        let (a, b) = self.costs(one, other)?;
        // A thread that starts or ends makes some more.
        let whole = |calls: f64| number((calls * 10.0).round() / 10.0);
        let [here, there] = [a.traffic?.all, b.traffic?.all].map(whole);
        Some(format!(
            "for one call {one} makes {here} system calls, {other} {there}"
        ))
    }

    /// The instructions of both for one call, and the lines they fetch for it, if the
    /// other's are at least `must` times as many.
    pub(crate) fn instructed(&self, one: &str, other: &str, must: f64) -> Option<String> {
        let (a, b) = self.costs(one, other)?;
        let (here, there) = (a.instructions?, b.instructions?);
        let text = || {
            let [here, there] = [here, there].map(|it| number(it.round()));
            let lines = a.lines().zip(b.lines()).map(|(ours, theirs)| {
                let cost = match ours.iter().sum::<f64>() > theirs.iter().sum() {
                    true => {
                        ": the more somebody else uses the processor's caches, the more they cost"
                    }
                    false => "",
                };
                let [code, data] = ours.map(|it| number(it.round()));
                let [their_code, their_data] = theirs.map(|it| number(it.round()));
                format!(
                    "; for each, {code} and {their_code} lines of code and {data} and \
                     {their_data} of data are fetched anew{cost}"
                )
            });
            let lines = lines.unwrap_or_default();
            format!("a call takes {one} {here} instructions, {other} {there}{lines}")
        };
        (there / here >= must).then(text)
    }

    fn costs(&self, one: &str, other: &str) -> Option<(Cost, Cost)> {
        let (a, b) = self.pair(one, other)?;
        Some((a.cost?, b.cost?))
    }
}

/// The medians of the rounds with the least of something, and of those with the most.
fn halves(mut rounds: Vec<(f64, f64)>) -> Option<[(f64, f64); 2]> {
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, most) = rounds.split_at(rounds.len() / 2);
    let medians = |half: &[(f64, f64)]| {
        let (of, values): (Vec<_>, Vec<_>) = half.iter().copied().unzip();
        (Spread::of(of).median, Spread::of(values).median)
    };
    (!least.is_empty()).then(|| [least, most].map(medians))
}

/// One sentence of what is known.
pub(crate) fn all(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn halves_are_those_with_less_and_with_more() {
        let rounds = vec![(0.9, 1.3), (0.1, 1.0), (0.2, 1.2), (0.8, 1.5)];
        let [(less, low), (more, high)] = halves(rounds).expect("two halves");
        assert!(
            (less - 0.15).abs() < 1e-9 && (low - 1.1).abs() < 1e-9,
            "{less}, {low}"
        );
        assert!(
            (more - 0.85).abs() < 1e-9 && (high - 1.4).abs() < 1e-9,
            "{more}, {high}"
        );
        assert_eq!(halves(vec![(0.5, 1.0)]), None);
    }
}
