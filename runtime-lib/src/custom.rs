//! What a function is given that a program binds to an operator of its own.
//!
//! A model may name operators that ONNX does not have. `onnxc --custom com.acme::Clip=crate::clip`
//! has the generated module call a function of the program for each such node: with a [`View`] of
//! each input, a [`ViewMut`] of each output, and the node's [`Attributes`], in this order. What the
//! model says of element types and numbers of axes stands in the types, so the compiler holds the
//! function against the model:
//!
//! ```
//! use onnxc_runtime::{Error, Result, custom::{Attributes, View, ViewMut}};
//!
//! fn clip(x: View<'_, f32, 2>, mut y: ViewMut<'_, f32, 2>, attributes: Attributes<'_>) -> Result {
//!     let most = attributes.float("most").ok_or(Error::Value("Clip wants `most`"))?;
//!     for (y, x) in y.data_mut().iter_mut().zip(x.data()) {
//!         *y = x.min(most);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! An output holds what was in its memory before, so all of it must be written. The same inputs must
//! give the same outputs: of two nodes alike one is called, and none whose outputs nobody needs.
//!
//! Where a node of the operator leaves an input or an output out, the function is given an `Option`
//! of it, `None` where it is left out.

pub use crate::view::{View, ViewMut};

/// The attributes of a node, as the model has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributes<'a>(&'a [(&'a str, Attribute<'a>)]);

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Attribute<'a> {
    Int(i64),
    Float(f32),
    String(&'a str),
    Ints(&'a [i64]),
    Floats(&'a [f32]),
    Strings(&'a [&'a str]),
}

/// Defines what asks for the attributes of one kind each.
macro_rules! kinds {
    ($($name:ident $Kind:ident $T:ty, $what:literal;)*) => {$(
        #[doc = concat!("The ", $what, " of that name, where the node has it.")]
        pub fn $name(&self, name: &str) -> Option<$T> {
            match self.get(name) {
                Some(Attribute::$Kind(value)) => Some(value),
                _ => None,
            }
        }
    )*};
}

impl<'a> Attributes<'a> {
    /// Attributes with their names.
    pub const fn new(attributes: &'a [(&'a str, Attribute<'a>)]) -> Attributes<'a> {
        Attributes(attributes)
    }

    /// The attribute of that name, where the node has it.
    pub fn get(&self, name: &str) -> Option<Attribute<'a>> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// All attributes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Attribute<'a>)> {
        self.0.iter().copied()
    }

    kinds! {
        int Int i64, "whole number";
        float Float f32, "number";
        string String &'a str, "string";
        ints Ints &'a [i64], "whole numbers";
        floats Floats &'a [f32], "numbers";
        strings Strings &'a [&'a str], "strings";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_found_by_its_name_and_kind() {
        let attributes =
            Attributes::new(&[("axes", Attribute::Ints(&[1, 2])), ("most", Attribute::Float(0.5))]);
        assert_eq!(attributes.float("most"), Some(0.5));
        assert_eq!(attributes.ints("axes"), Some(&[1, 2][..]));
        assert_eq!((attributes.int("most"), attributes.string("mode")), (None, None));
        assert_eq!(attributes.iter().count(), 2);
    }
}
