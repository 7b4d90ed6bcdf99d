//! Which accelerators a program is given.
//!
//! One switch for each, written as words with commas; `--fast` alone is all of them that are proven: `specialise` and
//! `overlap` are asked for by their names. A word more says how careful they are, and is no accelerator.

use super::Value;

macro_rules! accelerators {
    ($($(#[doc = $about:literal])+ $name:ident $in_all:literal;)+) => {
        /// The accelerators of `--fast` and `APEX_FAST`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Fast {
            $($(#[doc = $about])+ pub $name: bool,)+
            /// Each call waits for the driver's answer, as it does without apex.
            pub strict: bool,
        }

        impl Fast {
            /// All accelerators that need not be asked for by name.
            pub const ALL: Fast = Fast { $($name: $in_all,)+ strict: false };

            /// Whether any accelerator is on.
            #[must_use]
            pub fn any(self) -> bool {
                $(self.$name)||+
            }

            /// The words of those that are on, with commas; empty where none is.
            #[must_use]
            pub fn words(self) -> String {
                let all = [$((stringify!($name), self.$name),)+ ("strict", self.strict)];
                let on: Vec<&str> = all.iter().filter(|(_, on)| *on).map(|(word, _)| *word).collect();
                on.join(",")
            }

            fn switch(&mut self, word: &str) -> bool {
                match word {
                    $(stringify!($name) => self.$name = true,)+
                    "strict" => self.strict = true,
                    _ => return false,
                }
                true
            }
        }

        const WANTED: &str =
            concat!("a list of ", $(stringify!($name), ", ",)+ "strict (with commas), or all, or none");
    };
}

accelerators! {
    /// Launches wait in a queue and go down as graphs where they repeat.
    launch true;
    /// Memory that was freed is handed out again without the driver.
    memory true;
    /// Kernels are compiled again for the scalars and shapes that they are called with, and kept where they are faster.
    specialise false;
    /// Launches that touch nothing in common run at once, where they go down as a graph.
    overlap false;
}

impl Fast {
    /// Reads the words.
    ///
    /// # Errors
    ///
    /// A word that is none of them: what is wanted instead.
    pub fn parse(text: &str) -> Result<Fast, &'static str> {
        match text {
            "" | "0" | "none" => return Ok(Fast::default()),
            "1" | "all" => return Ok(Fast::ALL),
            _ => {}
        }
        let mut fast = Fast::default();
        let all_known = text.split(',').all(|word| fast.switch(word.trim()));
        match all_known {
            // Careful alone is careful with everything.
            true if !fast.any() => Ok(Fast { strict: true, ..Fast::ALL }),
            true => Ok(fast),
            false => Err(WANTED),
        }
    }
}

impl Value for Fast {
    fn parse(text: &str) -> Result<Fast, &'static str> {
        Fast::parse(text)
    }
    fn show(&self) -> String {
        let words = self.words();
        if words.is_empty() { "none".into() } else { words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_switch_what_they_name() {
        assert_eq!(Fast::parse("launch").unwrap().words(), "launch");
        assert_eq!(Fast::parse("memory, launch").unwrap().words(), "launch,memory");
        assert_eq!(Fast::parse("specialise,launch").unwrap().words(), "launch,specialise");
        // What is not proven yet is asked for by its name.
        assert_eq!(Fast::ALL.words(), "launch,memory");
        assert_eq!(Fast::parse("strict, launch").unwrap().words(), "launch,strict");
        assert_eq!(Fast::parse("launch,overlap").unwrap().words(), "launch,overlap");
        assert_eq!(Fast::parse("all"), Ok(Fast::ALL));
        assert_eq!(Fast::parse("strict"), Ok(Fast { strict: true, ..Fast::ALL }));
        assert!(!Fast::parse("0").unwrap().any());
        assert!(!Fast::parse("").unwrap().any());
        let all = Fast::ALL;
        assert_eq!(Fast::parse(&all.words()), Ok(all));
        assert_eq!(Fast::parse(&Fast::default().show()), Ok(Fast::default()));
    }

    #[test]
    fn a_word_that_is_none_is_answered_with_those_that_are() {
        for wrong in ["lanch", "memoryy", "launch,", "launch strict", "all,launch", ","] {
            assert_eq!(
                Fast::parse(wrong),
                Err(
                    "a list of launch, memory, specialise, overlap, strict (with commas), or all, or none"
                )
            );
        }
    }
}
