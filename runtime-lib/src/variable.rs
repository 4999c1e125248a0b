//! Trained variables, which a model stores at the start of its arena.

use crate::{
    Error, Result,
    arena::{Block, Plain, Slot, borrow},
};

/// A variable of a model.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The variable's name in the model.
    pub name: &'static str,
    /// The element type, as ONNX names it.
    pub ty: &'static str,
    /// The size of each axis.
    pub shape: &'static [usize],
    len: usize,
    bytes: Slot<u8>,
    is_valid: fn(&[u8]) -> bool,
}

impl Variable {
    /// Describes a variable whose elements start at byte `offset` of the arena.
    pub const fn new<T: Plain>(
        name: &'static str,
        ty: &'static str,
        shape: &'static [usize],
        offset: usize,
    ) -> Variable {
        let mut bytes = size_of::<T>();
        let mut axis = 0;
        while axis < shape.len() {
            bytes *= shape[axis];
            axis += 1;
        }
        let (len, bytes) = (bytes, Slot::new(offset, bytes));
        Variable { name, ty, shape, len, bytes, is_valid: T::is_valid }
    }
}

impl Variable {
    /// Checks that `bytes` are valid elements of the variable.
    ///
    /// # Errors
    ///
    /// Returns an error if the length differs, or if the bytes are not valid for the element type.
    pub fn check(&self, bytes: &[u8]) -> Result {
        if self.len != bytes.len() {
            return Err(Error::Length { expected: self.len, found: bytes.len() });
        }
        let invalid = Error::Value("the bytes are not valid elements of the variable's type");
        if (self.is_valid)(bytes) { Ok(()) } else { Err(invalid) }
    }
}

/// The variables of a model, in its arena.
pub struct Variables<'a> {
    all: &'static [Variable],
    arena: &'a mut [Block],
}

impl<'a> Variables<'a> {
    /// Wraps the variables `all` at the start of `arena`.
    pub fn new(all: &'static [Variable], arena: &'a mut [Block]) -> Variables<'a> {
        Variables { all, arena }
    }

    /// The description of each variable, in the model's order.
    pub fn all(&self) -> &'static [Variable] {
        self.all
    }

    /// Returns the variable with that name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no variable with that name.
    pub fn find(&self, name: &str) -> Result<&'static Variable> {
        let found = self.all.iter().find(|variable| variable.name == name);
        found.ok_or(Error::Value("the model has no variable of that name"))
    }

    /// Returns the elements of the variable with that name, as bytes.
    pub fn get(&mut self, name: &str) -> Option<&[u8]> {
        bytes(self.all, name, self.arena)
    }

    /// Sets the variable with that name to the elements in `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no variable with that name, or if `bytes` has another length or
    /// is not valid for the element type.
    pub fn set(&mut self, name: &str, bytes: &[u8]) -> Result {
        load(self.all, name, self.arena, bytes)
    }
}

/// Returns the elements of the variable with that name, as bytes.
pub fn bytes<'a>(variables: &[Variable], name: &str, arena: &'a mut [Block]) -> Option<&'a [u8]> {
    let variable = variables.iter().find(|variable| variable.name == name)?;
    Some(borrow(arena, variable.bytes.read()))
}

/// Sets the variable with that name to the elements in `bytes`.
///
/// # Errors
///
/// Returns an error if there is no variable with that name, or if `bytes` has another length or is
/// not valid for the element type.
pub fn load(variables: &[Variable], name: &str, arena: &mut [Block], bytes: &[u8]) -> Result {
    let variable = variables.iter().find(|variable| variable.name == name);
    let variable = variable.ok_or(Error::Value("the model has no variable of that name"))?;
    variable.check(bytes)?;
    borrow(arena, variable.bytes.write()).copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::InlineArena;

    const VARIABLES: &[Variable] = &[
        Variable::new::<f32>("w", "float", &[2, 1], 0),
        Variable::new::<bool>("seen", "bool", &[], 64),
    ];

    #[test]
    fn variables_are_read_and_set_by_name() {
        let mut arena = InlineArena::<2>::new();
        let two = [1.5f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat();
        assert_eq!(load(VARIABLES, "w", arena.blocks(), &two), Ok(()));
        assert_eq!(bytes(VARIABLES, "w", arena.blocks()), Some(&two[..]));
        assert_eq!(bytes(VARIABLES, "v", arena.blocks()), None);
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        let mut arena = InlineArena::<2>::new();
        assert!(load(VARIABLES, "w", arena.blocks(), &[0; 7]).is_err());
        assert!(load(VARIABLES, "seen", arena.blocks(), &[2]).is_err());
        assert!(load(VARIABLES, "v", arena.blocks(), &[]).is_err());
        assert_eq!(load(VARIABLES, "seen", arena.blocks(), &[1]), Ok(()));
    }
}
