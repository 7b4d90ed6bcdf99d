//! A loaded module: texts linked, variables placed and filled, kernels lowered.
//!
//! A text that is not PTX, and a symbol that nobody defines, make the whole module fail, with the
//! words ptxas would use. An instruction that is not understood makes only its kernel
//! unsupported: what does not run it is not concerned.

mod image;
mod limits;
mod runtime;

use crate::dump::Dump;
use crate::kernel::{Kernel, layout};
use crate::lower::{self, Home, Program, Refusal};
use crate::passes;
use apex_ptx::LinkError;
use apex_ptx::tree::{self, Directive, Function, Item};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A linked, lowered program with its variables placed.
#[derive(Debug)]
pub struct Module {
    kernels: Vec<Arc<Kernel>>,
    by_name: HashMap<String, usize>,
    variables: Vec<Placed>,
    warnings: Vec<String>,
}

/// A variable that needs memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name in the PTX text.
    pub name: &'a str,
    /// Its size.
    pub bytes: u64,
    /// Its alignment.
    pub align: u64,
    /// Where PTX says it lives.
    pub space: Space,
    /// Whether the host sees it too.
    pub managed: bool,
}

/// Where PTX says a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.global`.
    Global,
    /// `.const`.
    Const,
    /// A texture reference: eight bytes for the handle.
    Texture,
    /// A surface reference: eight bytes for the handle.
    Surface,
    /// A sampler: eight bytes.
    Sampler,
}

/// A variable in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its name in the PTX text.
    pub name: String,
    /// Where it is.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Where PTX says it lives.
    pub space: Space,
    /// Whether the host sees it too.
    pub managed: bool,
}

/// Why a module cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// What kind of failure.
    pub kind: LoadErrorKind,
    /// What ptxas would print.
    pub log: String,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoadErrorKind {
    /// The text is not PTX.
    InvalidPtx,
    /// It is PTX of a version that is not known here.
    UnsupportedVersion,
    /// A symbol is defined nowhere, or twice.
    Unresolved,
    /// A variable found no memory.
    OutOfMemory,
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.log.trim_end())
    }
}

impl std::error::Error for LoadError {}

/// Registers that a thread can have, and the lowest limit that ptxas holds to.
const MOST_REGISTERS: u32 = 255;
const LEAST_LIMIT: u32 = 24;

/// The newest PTX version that is read: 9.x, and whatever of later ones is not new.
const NEWEST_MAJOR: u32 = 9;

impl Module {
    /// Links the texts, asks `place` for memory for each variable, fills it with the initial
    /// values and lowers all kernels. A text that ends with `.pragma "maxrregcount N";` asks for at
    /// most so many registers for a thread, as an option of the driver does.
    ///
    /// `place` gives the address of writable memory of that size and alignment, which stays until
    /// the module is gone, or `None` when there is none left. What it held is cleared, but pages
    /// of zeros are only read: a large variable costs memory where it is used.
    pub fn load(
        texts: &[&str],
        place: &mut dyn FnMut(Variable<'_>) -> Option<u64>,
    ) -> Result<Module, LoadError> {
        Module::load_and_dump(texts, None, place)
    }

    /// As [`Self::load`]; what each kernel is after each pass goes into the dump.
    pub fn load_and_dump(
        texts: &[&str],
        dump: Option<&Dump>,
        place: &mut dyn FnMut(Variable<'_>) -> Option<u64>,
    ) -> Result<Module, LoadError> {
        let (tree, asked) = link(texts)?;
        let mut program = Program::new(&tree);
        let variables = place_variables(&tree, &mut program, place)?;
        image::fill(&tree, &program)?;
        let constant = variables.iter().filter(|variable| variable.space == Space::Const);
        let constants: Arc<[(u64, u64)]> =
            constant.map(|variable| (variable.address, variable.bytes)).collect();
        let constant = constants.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let target = limits::architecture(&tree).unwrap_or(0);
        let mut module = Module {
            kernels: Vec::new(),
            by_name: HashMap::new(),
            variables,
            warnings: Vec::new(),
        };
        for (index, function) in program.functions.iter().enumerate() {
            if lower::is_kernel(function) {
                let mut kernel = describe(function, target);
                kernel.constants = constants.clone();
                kernel.constant = u32::try_from(constant).unwrap_or(u32::MAX);
                match passes::lower(&program, index, dump) {
                    Ok(lowered) => {
                        kernel.registers = lowered.registers.min(most_registers(function, asked));
                        kernel.static_shared = lowered.static_shared;
                        kernel.local = lowered.code.local_bytes + lowered.code.stack_bytes;
                        kernel.code = Arc::new(lowered.code);
                    }
                    Err(Refusal(reason)) => {
                        module.warnings.push(format!("{}: {reason}", kernel.name));
                        kernel.unsupported = Some(reason);
                    }
                }
                module.by_name.insert(kernel.name.clone(), module.kernels.len());
                module.kernels.push(Arc::new(kernel));
            }
        }
        Ok(module)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Arc<Kernel>> {
        self.kernels.iter()
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&Arc<Kernel>> {
        self.by_name.get(name).map(|place| &self.kernels[*place])
    }

    /// All variables.
    pub fn variables(&self) -> &[Placed] {
        &self.variables
    }

    /// The variable of this name.
    pub fn variable(&self, name: &str) -> Option<&Placed> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Kernels that cannot run, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// One module of all texts, and the most registers that they leave a thread.
fn link(texts: &[&str]) -> Result<(tree::Module, u32), LoadError> {
    let mut modules = texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    let registers = modules.iter().filter_map(limits::registers).min().unwrap_or(MOST_REGISTERS);
    runtime::provide(&mut modules)?;
    match apex_ptx::link(&modules) {
        Ok(linked) => Ok((linked.module, registers)),
        Err(error) => {
            let kind = match error {
                LinkError::Duplicate { .. } | LinkError::Mixed { .. } => LoadErrorKind::Unresolved,
                LinkError::Nothing | LinkError::AddressSize => LoadErrorKind::InvalidPtx,
            };
            Err(LoadError { kind, log: format!("nvlink error   : {error}\n") })
        }
    }
}

/// The tree of one text, with nothing in it that cannot be.
fn parse(text: &str) -> Result<tree::Module, LoadError> {
    let module = apex_ptx::parse(text).map_err(|error| LoadError {
        kind: LoadErrorKind::InvalidPtx,
        log: format!(
            "ptxas application ptx input, line {}; fatal   : {}\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
            error.line, error.message
        ),
    })?;
    let (major, minor) = module.version;
    if major > NEWEST_MAJOR {
        return Err(LoadError {
            kind: LoadErrorKind::UnsupportedVersion,
            log: format!(
                "ptxas application ptx input, line 1; fatal   : Unsupported .version \
                 {major}.{minor}; current version is '{NEWEST_MAJOR}.0'\n"
            ),
        });
    }
    if module.address_size != 64 {
        return Err(LoadError {
            kind: LoadErrorKind::InvalidPtx,
            log: format!(
                "ptxas fatal   : addresses of {} bits are not supported; compile for 64\n",
                module.address_size
            ),
        });
    }
    limits::check(&module)?;
    Ok(module)
}

/// Gives every variable its home.
fn place_variables<'t>(
    tree: &'t tree::Module,
    program: &mut Program<'t>,
    place: &mut dyn FnMut(Variable<'_>) -> Option<u64>,
) -> Result<Vec<Placed>, LoadError> {
    let mut all = Vec::new();
    for item in &tree.items {
        match item {
            Item::Variable(variable) => all.push(variable),
            Item::Function(function) => {
                let body = function.body.as_deref().unwrap_or_default();
                lower::each_variable(body, &mut |variable| all.push(variable));
            }
            Item::Alias { .. } | Item::Verbatim(_) => {}
        }
    }
    let mut placed = Vec::new();
    for variable in all {
        let space = match (variable.space, variable.ty) {
            (_, tree::Type::TexRef) | (tree::Space::Texture, _) => Space::Texture,
            (_, tree::Type::SurfRef) => Space::Surface,
            (_, tree::Type::SamplerRef) => Space::Sampler,
            (tree::Space::Global, _) => Space::Global,
            (tree::Space::Const, _) => Space::Const,
            (tree::Space::Shared, _) => {
                let dynamic = variable.linkage == tree::Linkage::Extern;
                let home = if dynamic { Home::DynamicShared } else { Home::Shared };
                program.settle(variable, home);
                continue;
            }
            _ => continue,
        };
        if !lower::is_defined(variable) {
            continue;
        }
        let (Some(bytes), align) = (variable.bytes(), variable.alignment()) else {
            return Err(out_of_memory(variable));
        };
        let managed = variable.is_managed();
        let request = Variable { name: &variable.name, bytes, align, space, managed };
        let address = place(request).ok_or_else(|| out_of_memory(variable))?;
        program.settle(variable, Home::Memory(address));
        let name = variable.name.to_string();
        placed.push(Placed { name, address, bytes, space, managed });
    }
    Ok(placed)
}

fn out_of_memory(variable: &tree::Variable) -> LoadError {
    LoadError {
        kind: LoadErrorKind::OutOfMemory,
        log: format!("line {}: no memory for variable '{}'\n", variable.line, variable.name),
    }
}

/// How many registers a kernel's own limits leave a thread. What the program asks for counts where
/// the kernel does not say it itself.
fn most_registers(function: &Function, asked: u32) -> u32 {
    const ALL: u32 = 64 << 10;
    let limit = |directive: &Directive| match directive {
        Directive::MaxNreg(most) => (*most).max(LEAST_LIMIT),
        Directive::MaxNtid(shape) | Directive::ReqNtid(shape) => {
            // A warp gets whole ones, eight for each lane at a time.
            (ALL / threads(shape).next_multiple_of(32)) & !7
        }
        _ => MOST_REGISTERS,
    };
    let own = |directive: &Directive| matches!(directive, Directive::MaxNreg(_));
    let asked = if function.directives.iter().any(own) { MOST_REGISTERS } else { asked };
    let most = function.directives.iter().map(limit).min().unwrap_or(MOST_REGISTERS);
    most.min(asked.max(LEAST_LIMIT)).clamp(8, MOST_REGISTERS)
}

/// Threads of a block.
fn threads(shape: &[u32; 3]) -> u32 {
    shape.iter().fold(1_u32, |all, side| all.saturating_mul(*side)).clamp(1, 1024)
}

/// What a kernel's declaration says.
fn describe(function: &Function, target: u32) -> Kernel {
    let (params, param_bytes) = layout(&function.params);
    let mut kernel = Kernel {
        name: function.name.to_string(),
        params,
        param_bytes,
        registers: 8,
        static_shared: 0,
        local: 0,
        constant: 0,
        constants: Arc::default(),
        max_threads: 1024,
        required_block: None,
        cluster: None,
        ptx_version: target,
        binary_version: target,
        unsupported: None,
        code: Arc::default(),
    };
    for directive in &function.directives {
        match directive {
            Directive::MaxNtid(shape) => kernel.max_threads = threads(shape),
            Directive::ReqNtid(shape) => {
                kernel.max_threads = threads(shape);
                kernel.required_block = Some(*shape);
            }
            Directive::ReqNctaPerCluster(shape) => kernel.cluster = Some(*shape),
            _ => {}
        }
    }
    kernel
}
