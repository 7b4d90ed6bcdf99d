//! Every word of the page, once: its name, its place, its meaning and the values that are believed.
//!
//! One list makes the names ([`Grant`], [`Own`] …), the plain values ([`Granted`], [`Said`] …), their packing into words
//! and their unpacking. Whoever unpacks gets every value within its bounds: a program may write anything into its own
//! words. Programs and controllers of one page are of one apex ([`super::MAGIC`]), so a place may change with it.

/// Programs that can share one GPU.
pub const SLOTS: usize = 64;
/// Words of either file before its first slot.
pub const HEAD_WORDS: usize = 64;
/// Words of a slot, in either file.
pub const SLOT_WORDS: usize = 320;
/// Bursts whose lengths a program keeps for the controller.
pub const BURSTS_KEPT: usize = 9;
/// Fences of a program that the GPU may not have reached; a power of two.
pub const FENCES: u32 = 256;
/// No policy may have a launch wait longer.
pub const MOST_PATIENCE_NS: u64 = 1_000_000_000;

/// Makes the words of one list. Each is `Name field = place;`, and `in bounds` where not every value is believed.
/// What follows the bar are rows of several words; they have no plain value.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        $word:ident,
        $(#[doc = $plain:literal])+
        $values:ident {
            $($(#[doc = $meaning:literal])+ $name:ident $field:ident = $place:literal $(in $bounds:expr)?;)+
            $(| $($(#[doc = $row_meaning:literal])+ $row:ident = $first:literal, $count:expr;)+)?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $word {
            $($(#[doc = $meaning])+ $name = $place,)+
            $($($(#[doc = $row_meaning])+ $row = $first,)+)?
        }

        $(#[doc = $plain])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $values { $($(#[doc = $meaning])+ pub $field: u64,)+ }

        impl $word {
            /// Every word or row of words: its name, its first place and how many there are.
            pub const ALL: &[(&str, usize, usize)] = &[
                $((stringify!($name), $place, 1),)+
                $($((stringify!($row), $first, $count),)+)?
            ];
            /// Words until the last of those that have a plain value.
            pub const PACKED: usize = last_place(&[$($place),+]) + 1;
        }

        impl $values {
            /// Reads every word, within its bounds.
            #[inline]
            pub fn unpack(word: impl Fn($word) -> u64) -> $values {
                $values { $($field: word($word::$name) $(.clamp(*$bounds.start(), *$bounds.end()))?,)+ }
            }

            /// The words in their places, each within its bounds; places without a word are zero.
            #[must_use]
            pub fn pack(&self) -> [u64; $word::PACKED] {
                let mut words = [0; $word::PACKED];
                $(words[$place] = self.$field $(.clamp(*$bounds.start(), *$bounds.end()))?;)+
                words
            }
        }
    };
}

const fn last_place(places: &[usize]) -> usize {
    let (mut last, mut nth) = (0, 0);
    while nth < places.len() {
        if places[nth] > last {
            last = places[nth];
        }
        nth += 1;
    }
    last
}

words! {
    /// Words at the head of the settings. Times are of `CLOCK_MONOTONIC`, in nanoseconds.
    Setting,
    /// The head of the settings.
    Settings {
        /// [`super::MAGIC`].
        Magic magic = 0;
        /// Steps of all controllers so far.
        Epoch epoch = 1;
        /// Process id of the controller.
        Controller controller = 2;
        /// When the controller was last there.
        Heartbeat heartbeat_ns = 3;
        /// One bit for each slot whose program is gated.
        GatedSlots gated_slots = 4;
        /// Programs on this GPU.
        Programs programs = 5;
        /// 1 where kernels of several programs run at the same time (MPS).
        Mps mps = 6;
        |
        /// The policy's name, up to 32 bytes, zero-filled.
        Policy = 8, 4;
    }
}

words! {
    /// Words of a slot of the settings. All zero is an open gate.
    Grant,
    /// What the controller grants one program.
    Granted {
        /// The claim ([`super::claim_word`]) that these words are for; others do not believe them.
        Claim claim = 0;
        /// 1 if the program's launches ask at the gate at all; 0 leaves it alone.
        Gated gated = 1 in 0..=1;
        /// Slots whose bursts it waits for, a bit each.
        YieldsTo yields_to = 2;
        /// Predicted time that gated programs may have in flight.
        BudgetNs budget_ns = 3;
        /// Idle time after a burst before others may go on.
        GuardNs guard_ns = 4;
        /// Total of admitted time up to which it may go.
        AllowedNs allowed_ns = 5;
        /// Total of admitted time up to which it goes in any case.
        OwedNs owed_ns = 6;
        /// A launch that has waited so long goes.
        PatienceNs patience_ns = 7 in 0..=MOST_PATIENCE_NS;
        /// Its class as granted, by the policy's number, plus one; 0 before it was looked at.
        Class class = 8;
        /// When the controller last saw the process alive and not stopped.
        AliveNs alive_ns = 9;
    }
}

words! {
    /// Words at the head of the programs.
    Shared,
    /// The head of the programs.
    SharedByAll {
        /// [`super::MAGIC`].
        Magic magic = 0;
        /// Multiprocessors of the GPU, as the programs found them.
        Sms sms = 1 in 1..=4096;
        /// One bit for each slot whose program has a burst open.
        BurstsOpen bursts_open = 8;
        /// Its low half is what a held program sleeps on; rises when a burst ends.
        Wake wake = 16;
        /// Threads asleep there; may be too high after a program was killed.
        Waiters waiters = 17;
    }
}

words! {
    /// Words of a slot of the programs.
    Own,
    /// What a program says of itself.
    Said {
        /// Whose it is ([`super::claim_word`]); zero when nobody's.
        Claim claim = 0;
        /// Number of the session it runs in, for the apex that started it.
        Session session = 1;
        /// Class it asks for, by the policy's number, plus one; 0 while it takes no part.
        Class class = 2;
        /// Share it asks for, in thousandths; 0 if none.
        ShareMilli share_milli = 3 in 0..=1_000_000;
        /// Latency it wants to hold, in nanoseconds; 0 if none.
        SlaNs sla_ns = 4 in 0..=3_600_000_000_000;
        /// The part of bursts that must hold it, in millionths.
        SlaMicro sla_micro = 5 in 10_000..=999_900;
        /// 1 if nothing shall run beside its bursts.
        Exclusive exclusive = 6;

        /// When its burst began, or the last one if none is open.
        BurstStart burst_start_ns = 8;
        /// When its last burst ended.
        IdleSince idle_since_ns = 9;
        /// Predicted time of what it has launched in this burst.
        BurstPredicted burst_predicted_ns = 10;
        /// When it last launched or copied, or a little before.
        LastActivity last_activity_ns = 11;
        /// Bursts it has finished.
        Bursts bursts = 12;
        /// Its usual burst; 0 if not known.
        UsualBurstNs usual_burst_ns = 13;
        /// Others' predicted time in flight when this burst began.
        BurstAhead burst_ahead_ns = 14;

        /// Predicted time of what it has left on the GPU.
        InFlightNs in_flight_ns = 24;
        /// When that was written.
        InFlightAt in_flight_at_ns = 25;
        /// Predicted time of all that it has launched.
        AdmittedNs admitted_ns = 26;
        /// Time its threads were held.
        WaitedNs waited_ns = 27;
        /// Launches that were held.
        Holds holds = 28;
        /// Launches.
        Launches launches = 29;
        /// Launches that went because the controller who said "wait" was no longer there, held until then or not.
        FailedOpen failed_open = 30;
        /// Holds that ended at the longest time allowed.
        Overdue overdue = 31;
        /// Predicted time of all launches, each weighed by the share of the multiprocessors it fills.
        FilledNs filled_ns = 32;
        /// Events recorded to learn what is done.
        Marks marks = 33;
        /// Threads of it that are held now.
        HeldNow held_now = 35;
        /// Launches that were not asked about: collectives, captures, streams others wait for.
        Exempt exempt = 36;
        /// When it was claimed.
        Since since_ns = 37;
        /// Predicted time of the work that the GPU does before it comes to a fence that may stop it.
        PieceNs piece_ns = 38;
        |
        /// The last bursts, [`BurstWord`] by word, the n-th at n modulo [`BURSTS_KEPT`].
        BurstRing = 64, BURSTS_KEPT * BurstWord::PACKED;
        /// Where the GPU says which fence it has come to, half a word each, the n-th at n modulo [`FENCES`].
        Reached = 128, FENCES as usize / 2;
        /// Its low half is the number of the last fence that lets work through. The GPU waits for it, programs that it
        /// yields to lower it when a burst begins, and its own watch raises it.
        Through = 256, 1;
        /// Its low half is the number of the last fence there is.
        Fence = 264, 1;
        /// Its low half is the last fence that the GPU was past when they were closed: what lies behind it runs.
        Past = 272, 1;
    }
}

words! {
    /// Words of a kept burst.
    BurstWord,
    /// A kept burst.
    KeptBurst {
        /// When it began.
        Start start_ns = 0;
        /// When it ended.
        End end_ns = 1;
        /// Its launches.
        Launches launches = 2 in 0..=u64::from(u32::MAX);
        /// Others' predicted time in flight when it began.
        Ahead ahead_ns = 3;
        /// Predicted time of what was launched in it.
        Work work_ns = 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_apart(all: &[(&str, usize, usize)], words: usize) {
        let mut sorted = all.to_vec();
        sorted.sort_by_key(|&(_, place, _)| place);
        for pair in sorted.windows(2) {
            let (name, place, count) = pair[0];
            assert!(place + count <= pair[1].1, "{name} reaches into {}", pair[1].0);
        }
        let (name, place, count) = sorted[sorted.len() - 1];
        assert!(place + count <= words, "{name} reaches beyond the last word");
    }

    #[test]
    fn every_word_has_a_place_of_its_own() {
        check_apart(Setting::ALL, HEAD_WORDS);
        check_apart(Shared::ALL, HEAD_WORDS);
        check_apart(Grant::ALL, SLOT_WORDS);
        check_apart(Own::ALL, SLOT_WORDS);
        check_apart(BurstWord::ALL, BurstWord::PACKED);
    }

    #[test]
    fn what_is_packed_is_unpacked_and_what_is_out_of_bounds_is_not_believed() {
        let granted =
            Granted { claim: 7, gated: 1, budget_ns: 300, patience_ns: 5, ..Granted::default() };
        let words = granted.pack();
        assert_eq!((words[Grant::Claim as usize], words[Grant::BudgetNs as usize]), (7, 300));
        assert_eq!(Granted::unpack(|word| words[word as usize]), granted);
        let wild = Granted::unpack(|_| u64::MAX);
        assert_eq!((wild.gated, wild.patience_ns, wild.budget_ns), (1, MOST_PATIENCE_NS, u64::MAX));
        let nothing = Said::unpack(|_| 0);
        assert_eq!((nothing.share_milli, nothing.sla_micro), (0, 10_000));
        assert_eq!(
            KeptBurst { launches: u64::MAX, ..KeptBurst::default() }.pack()[2],
            u64::from(u32::MAX)
        );
    }
}
