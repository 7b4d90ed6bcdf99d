//! The tables of functions that NVIDIA's own libraries ask the driver for.
//!
//! None is answered. A program that brings NVIDIA's runtime cannot do without two of
//! them, and is told in one sentence what to do instead.

use std::sync::Once;

use apex_cuda::types::*;

use crate::border::{get, put};
use crate::settings::say;

/// The private tables that NVIDIA's runtime asks for and cannot do without: its own interface, and the
/// proof that the driver is NVIDIA's.
const STATIC_RUNTIME_ASKS: [[u8; 16]; 2] = [
    0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9_u128.to_be_bytes(),
    0xd408_2055_bde6_704b_8d34_ba12_3c66_e1f2_u128.to_be_bytes(),
];

/// What is said of the file that asks. Where apex puts its own runtime in the place of such a one, a file is left
/// only because it was stripped of its symbols.
fn runtime_of_nvidia(maps: &str, asker: usize) -> String {
    let file = asking_file(maps, asker);
    let name = file.map(|path| path.rsplit('/').next().unwrap_or(path)).unwrap_or_default();
    let file = file.unwrap_or("this program");
    let is_replaced = maps.lines().any(|line| line.ends_with("/libapex_doors.so"));
    if name.starts_with("libcudart.so") {
        return format!(
            "{file} is NVIDIA's CUDA runtime, which only NVIDIA's driver can serve: apex has its own for CUDA 12 and \
             13, which `apex run --device soft` puts in its place"
        );
    }
    if is_replaced {
        format!(
            "{file} carries NVIDIA's static CUDA runtime without the symbols by which apex replaces it: \
             do not strip it, or link it with -cudart shared, to run it on the software GPU"
        )
    } else {
        format!(
            "{file} carries NVIDIA's static CUDA runtime, which only NVIDIA's driver can serve: start it with \
             `apex run --device soft`, or link it with -cudart shared, to run it on the software GPU"
        )
    }
}

/// The file whose memory holds the id that is asked for: it is a constant of the runtime.
fn asking_file(maps: &str, asker: usize) -> Option<&str> {
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bounds = range.and_then(|(start, end)| {
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?)
        });
        bounds.is_some_and(|bounds| bounds.contains(&asker))
    })?;
    line.find('/').map(|at| &line[at..])
}

answers! {
    fn cuGetExportTable(out: *mut *const c_void, id: *const CUuuid) {
        put(out, core::ptr::null())?;
        if STATIC_RUNTIME_ASKS.contains(&get(id)?.bytes.map(i8::cast_unsigned)) {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
                say(&runtime_of_nvidia(&maps, id as usize));
            });
        }
        Err(CUDA_ERROR_NOT_FOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_asks_is_named_with_what_helps() {
        let maps = "7f02-7f03 r--p 00000000 00:1 6   /my program/run\n\
                    7f03-7f04 r--p 00000000 00:1 7   /opt/theirs/libcudart.so.13.0.96\n\
                    7f05-7f06 rw-p 00000000 00:0 0 \n";
        let said = runtime_of_nvidia(maps, 0x7f02);
        assert!(said.starts_with("/my program/run carries"), "{said}");
        assert!(
            said.contains("apex run --device soft") && said.contains("-cudart shared"),
            "{said}"
        );
        let said = runtime_of_nvidia(maps, 0x7f05);
        assert!(said.starts_with("this program carries"), "{said}");
        let said = runtime_of_nvidia(maps, 0x7f03);
        assert!(said.starts_with("/opt/theirs/libcudart.so.13.0.96 is NVIDIA's"), "{said}");
        let maps = format!("{maps}7f07-7f08 r-xp 00000000 00:1 8 /opt/apex/libapex_doors.so\n");
        let said = runtime_of_nvidia(&maps, 0x7f02);
        assert!(said.contains("without the symbols") && said.contains("strip"), "{said}");
    }
}
