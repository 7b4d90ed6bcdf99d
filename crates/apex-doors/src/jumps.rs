//! Which bytes turn functions into jumps.
//!
//! A far jump takes 14 bytes with its target. A shorter function jumps near, to a far jump in the rest of a longer one,
//! which nothing enters any more. What is shorter than a near jump can only return: it reaches no driver and stays.

/// A function that is to be left at its first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    /// Where it is.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Where it goes on.
    pub(crate) target: Target,
}

/// Where a function goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// At a function that takes the same arguments.
    Same(u64),
    /// At a function that is given one argument, such as a name, in place of all others.
    With {
        /// The function.
        function: u64,
        /// Its argument.
        argument: u64,
    },
}

/// Bytes for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Where they go.
    pub(crate) address: u64,
    /// The bytes.
    pub(crate) code: Vec<u8>,
}

/// Bytes of a near jump, the shortest that leaves a function for any other.
pub(crate) const NEAR_BYTES: u64 = 5;

/// The bytes for all doors; none where one cannot be turned.
pub(crate) fn patches(doors: &[Door]) -> Option<Vec<Patch>> {
    let mut patches = Vec::new();
    let mut rooms: Vec<(u64, u64)> = Vec::new();
    let mut narrow = Vec::new();
    for door in doors {
        let code = code(door.target);
        let bytes = code.len() as u64;
        if door.bytes >= bytes {
            rooms.push((door.address + bytes, door.bytes - bytes));
            patches.push(Patch { address: door.address, code });
        } else if door.bytes >= NEAR_BYTES {
            narrow.push((door, code));
        }
    }
    for (door, code) in narrow {
        let room = rooms.iter_mut().find(|room| room.1 >= code.len() as u64)?;
        patches.push(Patch { address: door.address, code: near(door.address, room.0)? });
        patches.push(Patch { address: room.0, code: code.clone() });
        *room = (room.0 + code.len() as u64, room.1 - code.len() as u64);
    }
    Some(patches)
}

fn code(target: Target) -> Vec<u8> {
    match target {
        // jmp [rip + 0], and the address behind it.
        Target::Same(function) => [&[0xff, 0x25, 0, 0, 0, 0][..], &function.to_le_bytes()].concat(),
        // mov rdi, argument; mov rax, function; jmp rax
        Target::With { function, argument } => [
            &[0x48, 0xbf][..],
            &argument.to_le_bytes(),
            &[0x48, 0xb8],
            &function.to_le_bytes(),
            &[0xff, 0xe0],
        ]
        .concat(),
    }
}

fn near(from: u64, to: u64) -> Option<Vec<u8>> {
    let distance = to.wrapping_sub(from.wrapping_add(NEAR_BYTES)).cast_signed();
    let distance = i32::try_from(distance).ok()?;
    Some([&[0xe9][..], &distance.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(address: u64, bytes: u64) -> Door {
        Door { address, bytes, target: Target::Same(0x1122_3344_5566_7788) }
    }

    #[test]
    fn a_long_function_jumps_far() {
        let patches = patches(&[door(0x1000, 14)]).unwrap();
        let far = [0xff, 0x25, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
        assert_eq!(patches, [Patch { address: 0x1000, code: far.to_vec() }]);
    }

    #[test]
    fn a_short_function_goes_through_a_longer_one() {
        let patches = patches(&[door(0x1000, 10), door(0x2000, 28), door(0x3000, 13)]);
        assert_eq!(patches, None, "there is room for one");
        let patches = super::patches(&[door(0x1000, 10), door(0x2000, 28)]).unwrap();
        assert_eq!(patches[0].address, 0x2000);
        // From behind the jump to behind the far jump: 0x200e - 0x1005.
        assert_eq!(patches[1], Patch { address: 0x1000, code: vec![0xe9, 0x09, 0x10, 0, 0] });
        assert_eq!((patches[2].address, patches[2].code.len()), (0x200e, 14));
    }

    #[test]
    fn what_only_returns_stays() {
        assert_eq!(patches(&[door(0x1000, 3)]), Some(Vec::new()));
    }

    #[test]
    fn bytes_lie_within_their_function() {
        let doors = [door(0x1000, 100), door(0x1064, 6), door(0x1070, 8), door(0x1080, 22)];
        let patches = patches(&doors).unwrap();
        for patch in &patches {
            let end = patch.address + patch.code.len() as u64;
            let within =
                |door: &Door| door.address <= patch.address && end <= door.address + door.bytes;
            assert!(doors.iter().any(within), "{patch:?}");
        }
        let mut starts: Vec<_> =
            patches.iter().map(|patch| (patch.address, patch.code.len() as u64)).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{starts:x?}");
    }
}
