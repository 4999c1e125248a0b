//! The types that custom operators are called with.
//!
//! A model may use operators that ONNX does not define. `onnxc --custom com.acme::Clip=crate::clip`
//! makes the generated module call a function of the program for each such node. Its parameters
//! are, in this order, a [`View`] of each input, a [`ViewMut`] of each output, and the node's
//! [`Attributes`]. Element types and ranks are part of the parameter types, so the Rust compiler
//! checks the function against the model:
//!
//! ```
//! use onnxc_runtime::{Error, Result, custom::{Attributes, View, ViewMut}};
//!
//! fn clip(x: View<'_, f32, 2>, mut y: ViewMut<'_, f32, 2>, attributes: Attributes<'_>) -> Result {
//!     let max = attributes.float("max").ok_or(Error::Value("Clip needs the attribute `max`"))?;
//!     for (y, x) in y.data_mut().iter_mut().zip(x.data()) {
//!         *y = x.min(max);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! An output is not cleared before the call: the function must write all of it. It must return the
//! same outputs for the same inputs, because identical nodes are merged and nodes whose outputs are
//! unused are removed.
//!
//! A parameter is an `Option` if a node of the operator omits that input or output: `None` for the
//! nodes that omit it.

pub use crate::view::{View, ViewMut};

/// The attributes of a node.
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

/// Defines one getter for each kind of attribute.
macro_rules! kinds {
    ($($name:ident $Kind:ident $T:ty, $kind:literal;)*) => {$(
        #[doc = concat!("Returns the ", $kind, " attribute with that name, if the node has it.")]
        pub fn $name(&self, name: &str) -> Option<$T> {
            match self.get(name) {
                Some(Attribute::$Kind(value)) => Some(value),
                _ => None,
            }
        }
    )*};
}

impl<'a> Attributes<'a> {
    /// Creates attributes from names and values, sorted by name.
    pub const fn new(attributes: &'a [(&'a str, Attribute<'a>)]) -> Attributes<'a> {
        Attributes(attributes)
    }

    /// Returns the attribute with that name, if the node has it.
    pub fn get(&self, name: &str) -> Option<Attribute<'a>> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Returns all attributes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Attribute<'a>)> {
        self.0.iter().copied()
    }

    kinds! {
        int Int i64, "integer";
        float Float f32, "floating-point";
        string String &'a str, "string";
        ints Ints &'a [i64], "integer list";
        floats Floats &'a [f32], "floating-point list";
        strings Strings &'a [&'a str], "string list";
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
