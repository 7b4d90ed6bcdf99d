//! What forests of programs are asked, and what becomes of their answers.

use super::names::NameFacts;
use super::sight::Looped;
use super::*;
use crate::predict::question::{Arguments, Device, Kernel, Mix, Question, Walked};
use crate::{Chip, LaunchShape};

fn sight(blocks: u32, mix: Mix, walked: &Walked) -> Sight {
    let chip = Chip::for_capability(9, 0).unwrap();
    let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
    let kernel = Kernel { registers: 32, mix, ..Kernel::default() };
    let shape = LaunchShape { grid: [blocks, 1, 1], block: [256, 1, 1] };
    let question = Question::by_shape(&device, &kernel, shape, 0);
    let question = Question { walked, arguments: Arguments::NONE, ..question };
    Sight::of(&question, Looped::default(), NameFacts::of("k"), false)
}

fn read() -> Mix {
    Mix { total: 40, float32: 9, ..Mix::default() }
}

#[test]
fn what_an_answer_rests_on_follows_from_what_is_known() {
    let walked = Walked { instructions: 30.0, ..Walked::default() };
    let rest = |sight: &Sight, past: &Past| asked(sight, past).2;
    let none = Past::default();
    assert_eq!(rest(&sight(64, Mix::default(), Walked::NONE), &none), Rest::Shape);
    assert_eq!(rest(&sight(64, read(), Walked::NONE), &none), Rest::Mix);
    let seen = sight(64, read(), &walked);
    assert_eq!(rest(&seen, &none), Rest::Walk);
    let mut past = Past::default();
    past.observe(&sight(32, read(), &walked), 4096.0);
    past.observe(&sight(4096, read(), &walked), 65536.0);
    let (features, base, rest) = asked(&seen, &past);
    assert_eq!(rest, Rest::Others);
    assert!(
        (11.9..13.1).contains(&base),
        "the nearest shape is the smaller one, half as large: {base}"
    );
    let place = |name: &str| NAMES.iter().position(|known| *known == name).unwrap();
    assert!((features[place("apart_blocks")] - 1.0).abs() < 0.05);
    assert!(features.iter().all(|value| value.is_finite()));
}

#[test]
fn an_answer_that_spans_too_much_is_none() {
    let said = |rest, half_width| Said { time: 12.0, half_width, rest };
    assert!(said(Rest::Shape, 1.1).is_known());
    assert!(!said(Rest::Shape, 1.2).is_known());
    assert!(said(Rest::Mix, 1.2).is_known());
}

#[test]
fn a_forest_corrects_what_is_expected_or_what_was_near() {
    let model = Programs {
        forests: [Forest::new(1.0), Forest::new(-0.5), Forest::new(0.25)],
        widening: [4.0, 3.0, 2.0, 1.0],
    };
    let sight_of = |blocks| sight(blocks, Mix::default(), Walked::NONE);
    let seen = sight_of(64);
    let said = model.answer(&seen, &Past::default());
    assert_eq!((said.time, said.half_width, said.rest), (seen.expected + 1.0, 1.0, Rest::Shape));
    let mut past = Past::default();
    past.observe(&sight_of(128), 1024.0);
    let said = model.answer(&seen, &past);
    let grown = seen.expected - sight_of(128).expected;
    assert!((said.time - (10.0 + grown - 0.5)).abs() < 1e-4);
    assert_eq!((said.half_width, said.rest), (0.25, Rest::Others));
}

#[test]
fn a_past_is_bounded_and_moves_with_what_comes() {
    let mut past = Past::default();
    for blocks in 1..200 {
        past.observe(&sight(blocks, read(), Walked::NONE), 1000.0);
    }
    assert_eq!(past.launches.len(), REMEMBERED);
    let last = sight(199, read(), Walked::NONE);
    past.observe(&last, 4000.0);
    past.observe(&last, f32::NAN);
    let near = past.nearest(&last).unwrap().1;
    assert!((near - 11.0).abs() < 0.1, "{near}");
}

#[test]
fn what_is_added_to_a_time_is_as_sure_as_it_was() {
    let said = Said { time: 10.0, half_width: 1.0, rest: Rest::Mix };
    let longer = said.longer_by(1024.0);
    assert!((longer.time - 11.0).abs() < 1e-4);
    assert!((longer.half_width - 1.5_f32.log2()).abs() < 1e-4, "3,072 is 1.5 times 2,048");
    assert_eq!(said.longer_by(0.0), said);
}

#[test]
fn every_number_has_its_own_name() {
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), NAMES.len());
}
