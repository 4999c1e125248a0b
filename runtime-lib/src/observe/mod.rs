//! Looking inside a run: the values of each node, and the time that it takes.
//!
//! A module that was generated with `--taps` has `infer_with`, which calls a closure after each
//! node with the values that the node computed. One that was generated with `--profile` has
//! `infer_profiled`, which tells an [`Observer`] when each node ends: a [`Profile`], which adds up
//! times, a [`Trace`], which records them, both as a pair, or one of your own. Neither needs `std`
//! or the heap; the caller provides the [`Clock`].
//!
//! ```
//! use onnxc_runtime::observe::{Node, Observer as _, Profile, Times};
//!
//! // A module has this table as `NODES`, and makes these calls in `infer_profiled`.
//! const NODES: &[Node] = &[Node::new("/stem/conv", "Conv", 1_000), Node::new("y", "Relu", 0)];
//! let mut ticks = (0..).map(|tick| 500 * tick);
//! let clock = move || ticks.next().unwrap_or(u64::MAX);
//! let mut profile = Profile::new(NODES, [Times::NONE; NODES.len()], clock);
//! profile.start();
//! profile.node(0);
//! profile.node(1);
//! assert_eq!(profile.times()[0].total(), 500);
//! println!("{profile}");
//! ```

mod element;
mod profile;
mod table;
mod trace;
mod value;

pub use element::{Element, Elements};
#[cfg(feature = "std")]
pub use profile::InstantClock;
pub use profile::{Clock, Profile, Times};
pub use trace::{Event, Trace};
pub use value::{Taps, ValueView};

#[cfg(feature = "alloc")]
use crate::sequence::Sequence;

/// A node of the model, or several that one kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    name: &'static str,
    operator: &'static str,
    macs: u64,
}

impl Node {
    /// Creates the description of a node.
    pub const fn new(name: &'static str, operator: &'static str, macs: u64) -> Node {
        Node { name, operator, macs }
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The operator.
    pub const fn operator(&self) -> &'static str {
        self.operator
    }

    /// The multiply-adds of one execution, or 0 if they depend on sizes of the run.
    pub const fn macs(&self) -> u64 {
        self.macs
    }
}

/// Observes a run of a generated module. A node is an index in the module's `NODES`.
///
/// The methods do nothing by default, and a run without an observer does not call them.
pub trait Observer {
    /// The first node starts.
    #[inline(always)]
    fn start(&mut self) {}

    /// A node has computed the value `name`. `data` returns its elements.
    #[inline(always)]
    fn value<'v, T: Element>(
        &mut self,
        node: usize,
        name: &'static str,
        shape: &[usize],
        data: impl FnOnce() -> &'v [T],
    ) {
        let _ = (node, name, shape, data);
    }

    /// A node has computed the sequence `name`.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    fn sequence<T: Element>(&mut self, node: usize, name: &'static str, sequence: &Sequence<T>) {
        let _ = (node, name, sequence);
    }

    /// A node ends. The next one starts.
    #[inline(always)]
    fn node(&mut self, node: usize) {
        let _ = node;
    }
}

/// The observer of a run that nobody observes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn start(&mut self) {
        self.0.start();
        self.1.start();
    }

    #[inline]
    fn value<'v, T: Element>(
        &mut self,
        node: usize,
        name: &'static str,
        shape: &[usize],
        data: impl FnOnce() -> &'v [T],
    ) {
        let data = data();
        self.0.value(node, name, shape, || data);
        self.1.value(node, name, shape, || data);
    }

    #[cfg(feature = "alloc")]
    #[inline]
    fn sequence<T: Element>(&mut self, node: usize, name: &'static str, sequence: &Sequence<T>) {
        self.0.sequence(node, name, sequence);
        self.1.sequence(node, name, sequence);
    }

    #[inline]
    fn node(&mut self, node: usize) {
        self.0.node(node);
        self.1.node(node);
    }
}
