//! No text, however broken, makes loading panic or run away.
//!
//! Words, lines and numbers of good texts are exchanged at random, from a fixed seed. What still
//! is PTX must be lowered or refused, and what is lowered must keep the rules of lowered code.

use apex_engine::Module;
use apex_engine::code::{Code, Inst};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// The text with a few of its words, numbers or lines changed.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(4) {
        let (at, other) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(5) {
            0 => lines.swap(at, other),
            1 => lines[at] = lines[other].clone(),
            2 => _ = lines.remove(at),
            _ => {
                let words: Vec<&str> = lines[other].split_inclusive([' ', '.', ',']).collect();
                let word = words[random.below(words.len()).min(words.len().saturating_sub(1))..]
                    .first()
                    .copied()
                    .unwrap_or_default()
                    .to_owned();
                let mut own: Vec<String> =
                    lines[at].split_inclusive([' ', '.', ',']).map(str::to_owned).collect();
                if !own.is_empty() {
                    let place = random.below(own.len());
                    own[place] = word;
                }
                lines[at] = own.concat();
            }
        }
        if lines.is_empty() {
            break;
        }
    }
    lines.join("\n")
}

/// What always holds of lowered code.
fn check(code: &Code) {
    let starts: Vec<u32> = code.blocks.iter().map(|block| block.steps.start).collect();
    let mut end = 0;
    for (index, block) in code.blocks.iter().enumerate() {
        assert_eq!(block.steps.start, end, "blocks cover all steps");
        assert!(block.steps.start < block.steps.end, "no block is empty");
        end = block.steps.end;
        assert!(block.successors.iter().all(|next| (*next as usize) < code.blocks.len()));
        for pc in block.steps.clone() {
            let step = &code.steps[pc as usize];
            let targets = match &step.inst {
                Inst::Branch { target } => vec![*target],
                Inst::BranchIndexed { targets, .. } => targets.clone(),
                _ => Vec::new(),
            };
            assert!(targets.is_empty() || pc + 1 == block.steps.end, "only the last step jumps");
            for target in targets {
                let to = starts.binary_search(&target).expect("targets begin blocks") as u32;
                assert!(block.successors.contains(&to), "block {index} may go to {to}");
            }
        }
    }
    assert_eq!(end as usize, code.steps.len());
    for register in &code.registers {
        let bytes = register.class.file_bytes() as u32;
        assert!(register.offset + bytes <= code.file_bytes, "registers lie in the file");
        assert_eq!(register.offset % if bytes == 4 { 4 } else { 64 }, 0);
    }
}

#[test]
fn nothing_makes_loading_panic() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lowered");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let texts: Vec<String> =
        files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut random = Random(0x005E_ED0F_A9E5);
    let mut lowered = 0;
    let mut memory = vec![0_u64; 1 << 14];
    let rounds = if cfg!(debug_assertions) { 6_000 } else { 60_000 };
    for _ in 0..rounds {
        let text = texts[random.below(texts.len())].split("// lowered:").next().unwrap_or("");
        let text = mutate(text, &mut random);
        let start = (memory.as_mut_ptr() as u64).next_multiple_of(4096);
        let loaded = Module::load(&[&text], &mut |variable| {
            (variable.bytes <= 1 << 16 && variable.align <= 4096).then_some(start)
        });
        for kernel in loaded.iter().flat_map(Module::kernels) {
            if kernel.unsupported.is_none() {
                check(&kernel.code);
                lowered += 1;
            }
        }
    }
    assert!(lowered > rounds / 20, "only {lowered} kernels were lowered");
}
