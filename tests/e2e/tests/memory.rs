//! Memory of every kind, copies in every direction: seen with their bytes.

use apex_e2e::{Place, linked};

#[test]
fn every_kind_of_memory_is_seen_coming_and_going() {
    let place = Place::new();
    let watched = place.compare(&linked("allocations"), &[]);
    watched.check_expected();
    let memory = watched.summary().memory;
    assert_eq!(memory.device_live_bytes, 0);
    assert!(memory.kinds.iter().all(|kind| kind.live_bytes == 0), "{:?}", memory.kinds);
}

#[test]
fn every_copy_has_its_direction_and_its_bytes() {
    let place = Place::new();
    place.compare(&linked("copies"), &[]).check_expected();
}
