//! Variables and parameters.
//!
//! The words of a declaration are taken in any order, since compilers differ and ptxas does not
//! mind; only `.ptr` splits them, for what follows it speaks of the memory pointed to.

use super::{Parsed, Parser};
use crate::lex::Kind;
use crate::tree::{Attribute, Constant, Initializer, Linkage, PointerFacts, Space, Type, Variable};

/// Whether a dotted word begins a variable or function.
pub(super) fn begins_declaration(word: &str) -> bool {
    matches!(word, ".entry" | ".func") || linkage(word).is_some() || space(word).is_some()
}

fn linkage(word: &str) -> Option<Linkage> {
    Some(match word {
        ".visible" => Linkage::Visible,
        ".extern" => Linkage::Extern,
        ".weak" => Linkage::Weak,
        ".common" => Linkage::Common,
        _ => return None,
    })
}

fn space(word: &str) -> Option<Space> {
    Some(match word {
        ".reg" => Space::Register,
        ".sreg" => Space::SpecialRegister,
        ".const" => Space::Const,
        ".global" => Space::Global,
        ".local" => Space::Local,
        ".param" => Space::Param,
        ".shared" => Space::Shared,
        ".tex" => Space::Texture,
        _ => return None,
    })
}

fn vector(word: &str) -> Option<u8> {
    match word {
        ".v2" => Some(2),
        ".v4" => Some(4),
        ".v8" => Some(8),
        _ => None,
    }
}

impl Parser<'_> {
    pub(super) fn linkage(&mut self) -> Parsed<Linkage> {
        let mut found = Linkage::Internal;
        while self.kind() == Kind::Dotted
            && let Some(linkage) = linkage(self.slice())
        {
            if found != Linkage::Internal {
                return Err(self.expected("only one linkage word"));
            }
            found = linkage;
            self.advance();
        }
        Ok(found)
    }

    /// One or more variables up to and with the semicolon.
    pub(super) fn variables(&mut self, linkage: Linkage, line: u32) -> Parsed<Vec<Variable>> {
        let shape = self.variable_words(linkage, line)?;
        let mut variables = Vec::with_capacity(1);
        loop {
            let mut variable = shape.clone();
            self.named(&mut variable)?;
            if self.take(b'=') {
                variable.init = Some(self.initializer()?);
            }
            variables.push(variable);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b';', "at the end of the variable")?;
        Ok(variables)
    }

    /// Everything of a declaration that stands before the name.
    pub(super) fn variable_words(&mut self, linkage: Linkage, line: u32) -> Parsed<Variable> {
        let found = (self.kind() == Kind::Dotted).then(|| space(self.slice())).flatten();
        let Some(space) = found else {
            return Err(self.expected("a state space such as .global"));
        };
        self.advance();
        let mut variable = Variable {
            linkage,
            space,
            attributes: Vec::new(),
            align: None,
            vector: None,
            ty: Type::B8,
            pointer: None,
            name: self.name(""),
            dims: Vec::new(),
            init: None,
            line,
        };
        let mut ty = None;
        while self.kind() == Kind::Dotted {
            self.variable_word(&mut variable, &mut ty)?;
        }
        match ty {
            Some(ty) => variable.ty = ty,
            None => return Err(self.expected("a type such as .u32")),
        }
        Ok(variable)
    }

    fn variable_word(&mut self, variable: &mut Variable, ty: &mut Option<Type>) -> Parsed<()> {
        let word = self.slice();
        if word == ".align" {
            self.advance();
            let at = self.at;
            let align = Some(self.integer_in("the alignment", 0, 1 << 30)?);
            if !align.is_some_and(u32::is_power_of_two) {
                return Err(self.error_at(at, "Alignment must be a power of two".into()));
            }
            match &mut variable.pointer {
                Some(pointer) => pointer.align = align,
                None => variable.align = align,
            }
            return Ok(());
        }
        if word == ".attribute" {
            variable.attributes = self.attributes()?;
            return Ok(());
        }
        if word == ".ptr" && variable.pointer.is_none() {
            variable.pointer = Some(PointerFacts { space: None, align: None });
        } else if let Some(length) = vector(word).filter(|_| variable.vector.is_none()) {
            variable.vector = Some(length);
        } else if let Some(found) = Type::from_word(&word[1..]).filter(|_| ty.is_none()) {
            *ty = Some(found);
        } else if let (Some(space), Some(pointer)) = (space(word), &mut variable.pointer) {
            pointer.space = Some(space);
        } else {
            return Err(self.expected("a type, an alignment or a name"));
        }
        self.advance();
        Ok(())
    }

    /// The name and the lengths behind it.
    pub(super) fn named(&mut self, variable: &mut Variable) -> Parsed<()> {
        variable.name = self.word("the name of a variable")?;
        while self.take(b'[') {
            let length = match self.kind() {
                Kind::Sign(b']') => None,
                _ => Some(self.integer("the length of an array")?),
            };
            variable.dims.push(length);
            self.expect(b']', "after the length of an array")?;
        }
        Ok(())
    }

    pub(super) fn attributes(&mut self) -> Parsed<Vec<Attribute>> {
        self.advance();
        self.expect(b'(', "after .attribute")?;
        let mut attributes = Vec::new();
        loop {
            attributes.push(self.attribute()?);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b')', "at the end of the attributes")?;
        Ok(attributes)
    }

    fn attribute(&mut self) -> Parsed<Attribute> {
        let start = self.at;
        if self.kind() != Kind::Dotted {
            return Err(self.expected("an attribute such as .managed"));
        }
        let word = self.slice();
        self.advance();
        if word == ".managed" {
            return Ok(Attribute::Managed);
        }
        if word == ".unified" && self.take(b'(') {
            let upper = self.integer("the upper half of the identity")?;
            self.expect(b',', "between the halves of the identity")?;
            let lower = self.integer("the lower half of the identity")?;
            self.expect(b')', "at the end of the identity")?;
            return Ok(Attribute::Unified(upper, lower));
        }
        if self.take(b'(') {
            while !matches!(self.kind(), Kind::Sign(b')') | Kind::End) {
                self.advance();
            }
            self.expect(b')', "at the end of the attribute")?;
        }
        Ok(Attribute::Other(self.text_since(start)))
    }

    fn initializer(&mut self) -> Parsed<Initializer> {
        match self.kind() {
            Kind::Sign(b'{') => self.nested(Parser::initializer_list),
            Kind::Word if self.slice() != "WARP_SZ" => {
                if self.next_kind() == Kind::Sign(b'=') {
                    let field = self.take_name();
                    self.advance();
                    let value = self.nested(Parser::initializer)?;
                    return Ok(Initializer::Field(field, Box::new(value)));
                }
                self.symbol(None)
            }
            _ => {
                let at = self.at;
                let constant = self.constant()?;
                if !self.take(b'(') {
                    return Ok(Initializer::Constant(constant));
                }
                let Constant::Integer { bits, .. } = constant else {
                    return Err(self.error_at(at, "a mask must be an integer".into()));
                };
                let symbol = self.symbol(Some(bits))?;
                self.expect(b')', "at the end of the masked symbol")?;
                Ok(symbol)
            }
        }
    }

    fn initializer_list(&mut self) -> Parsed<Initializer> {
        self.advance();
        let mut list = Vec::new();
        while !self.take(b'}') {
            list.push(self.initializer()?);
            if !self.take(b',') {
                self.expect(b'}', "at the end of the initial value")?;
                break;
            }
        }
        Ok(Initializer::List(list))
    }

    fn symbol(&mut self, mask: Option<u64>) -> Parsed<Initializer> {
        let mut name = self.word("the name of a symbol")?;
        let generic = &*name == "generic" && self.take(b'(');
        if generic {
            name = self.word("the name of a symbol")?;
            self.expect(b')', "after the symbol")?;
        }
        let offset = self.offset()?;
        Ok(Initializer::Symbol { name, generic, offset, mask })
    }
}
