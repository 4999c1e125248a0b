//! Values of a run, as a closure sees them.

use super::{
    Node, Observer,
    element::{Element, Elements},
};
#[cfg(feature = "alloc")]
use crate::sequence::Sequence;

/// A value that a node has computed.
#[derive(Clone, Copy, Debug)]
pub struct ValueView<'a> {
    name: &'static str,
    shape: &'a [usize],
    elements: Elements<'a>,
}

impl<'a> ValueView<'a> {
    /// The name in the model.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The element type, as ONNX's textual syntax spells it.
    pub fn ty(&self) -> &'static str {
        self.elements.ty()
    }

    /// The size of each axis. A convolution may keep its output in another layout than the model
    /// does, with the channels last or in blocks.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The elements, in row-major order.
    pub fn elements(&self) -> Elements<'a> {
        self.elements
    }

    /// Returns the elements, if their type is `T`.
    pub fn data<T: Element>(&self) -> Option<&'a [T]> {
        T::of(self.elements)
    }
}

/// The observer that calls a closure with each value.
#[derive(Debug)]
pub struct Taps<F> {
    nodes: &'static [Node],
    tap: F,
}

impl<F: FnMut(&'static Node, ValueView<'_>)> Taps<F> {
    /// Creates the observer of a run of a module with these nodes.
    pub fn new(nodes: &'static [Node], tap: F) -> Taps<F> {
        Taps { nodes, tap }
    }

    fn call<T: Element>(&mut self, node: usize, name: &'static str, shape: &[usize], data: &[T]) {
        // A buffer may have space for more elements than the value has.
        let len = shape.iter().product();
        let data = data.get(..len).unwrap_or(data);
        if let Some(node) = self.nodes.get(node) {
            (self.tap)(node, ValueView { name, shape, elements: T::wrap(data) });
        }
    }
}

impl<F: FnMut(&'static Node, ValueView<'_>)> Observer for Taps<F> {
    fn value<'v, T: Element>(
        &mut self,
        node: usize,
        name: &'static str,
        shape: &[usize],
        data: impl FnOnce() -> &'v [T],
    ) {
        self.call(node, name, shape, data());
    }

    #[cfg(feature = "alloc")]
    fn sequence<T: Element>(&mut self, node: usize, name: &'static str, sequence: &Sequence<T>) {
        for (shape, data) in sequence.iter() {
            self.call(node, name, shape, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_sees_the_elements_of_a_value_only() {
        const NODES: &[Node] = &[Node::new("a", "NonZero", 0)];
        let mut seen = 0;
        let mut taps = Taps::new(NODES, |node, value: ValueView<'_>| {
            assert_eq!((node.name(), node.operator(), value.name()), ("a", "NonZero", "y"));
            assert_eq!((value.ty(), value.shape()), ("int64", &[1, 2][..]));
            assert_eq!(value.data::<i64>(), Some(&[3, 5][..]));
            assert!(value.data::<i32>().is_none() && value.elements().len() == 2);
            seen += 1;
        });
        taps.value(0, "y", &[1, 2], || &[3_i64, 5, 0]);
        taps.node(0);
        assert_eq!(seen, 1);
    }
}
