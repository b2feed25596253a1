//! What caudal must reach in the races, and what it does.

use super::race::Race;
use super::scene::{Goal, Scene};
use super::why;
use crate::target::Target;

const BLOCKS: &str =
    "the bare loop blocks until something comes, where caudal first asks what is ready";

/// The goals of the scene `name`, a row of `subject` each, with what was measured.
pub(crate) fn rows(
    races: &[Race],
    name: &str,
    subject: &'static str,
) -> Vec<(&'static Goal, Target)> {
    let race = races.iter().find(|race| race.scene.name == name);
    let row = |scene: &Scene, goal: &'static Goal| {
        let ratio = race.and_then(|race| race.ratio("caudal", goal.beside));
        let row = Target::raced(subject, scene.key, goal, ratio);
        (goal, row.beside(scene.beside))
    };
    let scene = Scene::named(name).into_iter();
    let rows = scene.flat_map(|scene| scene.goals.iter().map(|goal| row(scene, goal)));
    rows.collect()
}

/// The same of one call in flight beside the bare loop, with why it takes longer.
pub(crate) fn rows_single(races: &[Race], name: &str, subject: &'static str) -> Vec<Target> {
    let race = races.iter().find(|race| race.scene.name == name);
    let asked = race.and_then(|race| race.asked("caudal", "bare"));
    let known = why::all([asked, Some(BLOCKS.to_owned())]);
    let rows = rows(races, name, subject).into_iter();
    rows.map(|(_, row)| row.why(known.clone())).collect()
}
