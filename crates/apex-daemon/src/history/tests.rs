//! What a history must keep, whatever happens to its file.

use super::*;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

fn past(nth: u64) -> Past {
    let shape = |blocks: u32| Measured {
        grid: [blocks, 1, 1],
        block: [256, 1, 1],
        nanos: 1_000.0 + nth as f32,
        half_width: 0.05,
        count: 3,
        ..Measured::default()
    };
    Past {
        device: "d".into(),
        driver: 13_000,
        code: code(nth, "k"),
        kernel: format!("k{nth}"),
        day: 20_000,
        shapes: vec![shape(1), shape(2)],
    }
}

fn open(folder: &Path) -> History {
    History::open(folder).unwrap()
}

#[test]
fn what_is_kept_is_found_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    assert_eq!((open(folder).kernels(), open(folder).find(1)), (0, None));
    let all: Vec<Past> = (0..300).map(past).collect();
    assert_eq!(keep(folder, &all).unwrap(), Outcome { kernels: 300, dropped: 0, is_written: true });
    let history = open(folder);
    assert!(all.iter().all(|one| history.find(one.key()).as_ref() == Some(one)));
    let other = Past { driver: 13_010, ..past(1) };
    assert_eq!(history.find(other.key()), None, "another driver may have other times");
    assert!(!keep(folder, &all).unwrap().is_written, "what is known is not written again");
}

#[test]
fn new_times_replace_old_ones_and_other_shapes_stay() {
    let place = tempfile::tempdir().unwrap();
    keep(place.path(), &[past(1)]).unwrap();
    let faster = Measured { nanos: 500.0, count: 9, ..past(1).shapes[0] };
    let by_cupti = Measured { timed: Timed::Cupti, count: 1, ..faster };
    let now = Past { shapes: vec![faster, by_cupti], day: 20_001, ..past(1) };
    keep(place.path(), &[now]).unwrap();
    let found = open(place.path()).find(past(1).key()).unwrap();
    assert_eq!((found.day, found.shapes), (20_001, vec![faster, past(1).shapes[1], by_cupti]));
    let many = |nth: u32| Measured { grid: [nth, 1, 1], count: nth, ..faster };
    let now = Past { shapes: (10..100).map(many).collect(), ..past(1) };
    keep(place.path(), &[now]).unwrap();
    let found = open(place.path()).find(past(1).key()).unwrap();
    assert_eq!((found.shapes.len(), found.shapes[0].count), (MOST_SHAPES, 99));
}

#[test]
fn several_writers_lose_nothing_of_each_other() {
    let place = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let folder = place.path();
            scope.spawn(move || {
                for nth in 0..10 {
                    keep(folder, &[past(writer * 100 + nth)]).unwrap();
                    // Readers meet a whole file at any time.
                    assert!(open(folder).kernels() > 0);
                }
            });
        }
    });
    let history = open(place.path());
    assert_eq!((history.kernels(), history.all().count()), (40, 40));
}

#[test]
fn what_was_forgotten_is_gone() {
    let place = tempfile::tempdir().unwrap();
    keep(place.path(), &[past(1), past(2), past(3)]).unwrap();
    assert_eq!(forget(place.path(), |past| past.kernel == "k2").unwrap(), 1);
    let names: Vec<String> = open(place.path()).all().map(|past| past.kernel).collect();
    assert_eq!((names.len(), names.contains(&"k2".into())), (2, false));
    assert_eq!(forget(place.path(), |_| true).unwrap(), 2);
    assert_eq!(open(place.path()).kernels(), 0);
}

#[test]
fn a_damaged_file_is_said_and_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    keep(place.path(), &[past(1), past(2)]).unwrap();
    let whole = fs::read(&path).unwrap();
    // A record alone: the others stay.
    let mut broken = whole.clone();
    *broken.last_mut().unwrap() ^= 1;
    fs::write(&path, &broken).unwrap();
    assert_eq!((open(place.path()).kernels(), open(place.path()).all().count()), (2, 1));
    for length in [0, 10, 47, 60, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(History::open(place.path()).is_err(), "{length}");
    }
    for place_of_bit in 0..80 {
        let mut broken = whole.clone();
        broken[place_of_bit] ^= 4;
        fs::write(&path, &broken).unwrap();
        assert!(History::open(place.path()).is_err(), "{place_of_bit}");
    }
    let mut broken = whole;
    broken[30] ^= 4;
    fs::write(&path, &broken).unwrap();
    assert_eq!(keep(place.path(), &[past(3)]).unwrap().kernels, 1);
    assert_eq!(open(place.path()).kernels(), 1);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_takes_records_and_no_life() {
    let place = tempfile::tempdir().unwrap();
    keep(place.path(), &[past(1)]).unwrap();
    let history = open(place.path());
    OpenOptions::new().write(true).open(place.path().join(FILE)).unwrap().set_len(70).unwrap();
    assert_eq!(history.find(past(1).key()), None);
}

#[test]
fn the_file_of_another_version_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    keep(place.path(), &[past(1)]).unwrap();
    // A later form under this name, and one under its own.
    File::options().write(true).open(&path).unwrap().write_all_at(&[2], 8).unwrap();
    let later = fs::read(&path).unwrap();
    fs::write(place.path().join("kernels-2.history"), &later).unwrap();
    let why = History::open(place.path()).unwrap_err();
    assert!(why.contains("another version"), "{why}");
    assert!(keep(place.path(), &[past(2)]).is_err());
    assert_eq!(fs::read(&path).unwrap(), later);
    fs::remove_file(&path).unwrap();
    keep(place.path(), &[past(2)]).unwrap();
    assert_eq!(open(place.path()).kernels(), 1);
    assert_eq!(fs::read(place.path().join("kernels-2.history")).unwrap(), later);
}

/// What a killed writer does: it is started by the test below.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os("APEX_TEST_HISTORY") else { return };
    for nth in 0.. {
        let many: Vec<Past> = (nth..nth + 200).map(past).collect();
        keep(Path::new(&folder), &many).unwrap();
        println!("{nth}");
    }
}

#[test]
fn a_killed_writer_leaves_a_whole_file() {
    let place = tempfile::tempdir().unwrap();
    keep(place.path(), &[past(1 << 40)]).unwrap();
    for pause in [3, 11, 17, 29] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "history::tests::writes_until_it_is_killed"])
            .env("APEX_TEST_HISTORY", place.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun when it says so; then it is killed wherever it is.
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.trim().parse::<u64>().is_ok_and(|nth| nth > 0) {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0);
        }
        std::thread::sleep(std::time::Duration::from_millis(pause));
        child.kill().unwrap();
        child.wait().unwrap();
        let history = open(place.path());
        assert_eq!(history.all().count(), history.kernels());
        assert!(history.find(past(1 << 40).key()).is_some());
    }
    // The next writer has the lock, and removes what the killed ones left.
    keep(place.path(), &[past(1 << 41)]).unwrap();
    let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let parts = names.filter(|name| name.to_string_lossy().ends_with(".part")).count();
    assert_eq!(parts, 0);
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let place = tempfile::tempdir().unwrap();
    keep(place.path(), &[past(1)]).unwrap();
    let before = fs::read(place.path().join(FILE)).unwrap();
    // A file that takes no byte stands where the part would be written.
    let part = place.path().join(format!("{FILE}.{}.part", std::process::id()));
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let full = crate::whole_file::write_whole(&place.path().join(FILE), &[1; 100]);
    assert!(full.unwrap_err().to_string().contains("No space left"));
    assert_eq!(fs::read(place.path().join(FILE)).unwrap(), before);
    assert_eq!(open(place.path()).find(past(1).key()), Some(past(1)));
}

#[test]
fn lines_go_from_one_machine_to_another() {
    let all: Vec<Past> = (0..5).map(past).collect();
    let mut text = Vec::new();
    assert_eq!(write_lines(all.iter().cloned(), &mut text).unwrap(), 5);
    text.write_all(b"\nno json\n").unwrap();
    let spoilt =
        String::from_utf8(text.clone()).unwrap().lines().next().unwrap().replace("1000.0", "-1.0");
    text.write_all(spoilt.as_bytes()).unwrap();
    let (read, complaints) = read_lines(&text[..]);
    assert_eq!(read, all);
    assert_eq!(complaints.len(), 2);
    assert!(complaints[0].starts_with("line 7:") && complaints[1].contains("above 0"));
}

#[test]
fn long_and_odd_names_are_cut_and_not_refused() {
    let place = tempfile::tempdir().unwrap();
    let odd = Past { kernel: "ü".repeat(300), device: "x".repeat(999), ..past(1) };
    keep(place.path(), std::slice::from_ref(&odd)).unwrap();
    let found: Vec<Past> = open(place.path()).all().collect();
    assert_eq!((found.len(), found[0].kernel.chars().count()), (1, 100));
}
