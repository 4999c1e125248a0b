//! The `Op` trait, which every operator implements.

use super::{Attributes, Gradient, Infer, Inferred, Lower, Views, gradient::no_gradient};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    domain,
    ty::Type,
};
use std::{any::Any, fmt, rc::Rc, str::FromStr};

/// An operator with its attributes, in the newest form that ONNX has for it.
///
/// ```
/// use onnxc::{Compiler, Options, ir::Domain};
///
/// let model = r#"<ir_version: 10, opset_import: ["" : 21]>
///     g (float[2] x) => (float[2] y) { y = Relu (x) }"#;
/// let graph = Compiler::new(&Options::default()).import(model.into())?.graph;
/// let operators = graph.nodes().map(|(_, node)| (node.op.name(), node.op.domain()));
/// let operators: Vec<_> = operators.collect();
/// assert_eq!(operators, [("Relu", Domain::Onnx)]);
/// # Ok::<(), onnxc::diag::Diagnostics>(())
/// ```
pub trait Op: Any {
    /// Returns the operator's name, as ONNX spells it.
    fn name(&self) -> &'static str;

    /// Returns the operator's name for messages.
    fn label(&self) -> String {
        self.name().to_owned()
    }

    /// Returns the operator set.
    fn domain(&self) -> Domain {
        Domain::Onnx
    }

    /// Reports every attribute in the form of the newest version, and the region of each subgraph.
    /// Graph dumps print them, `export` writes them, and operators with equal text are equal.
    fn attributes(&self, _: &mut Attributes) {}

    /// Returns the types of a region's inputs; called before the region is built.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs of the node do not fit the region, or
    /// [`Stop::Unknown`](super::Stop::Unknown) if their types are unknown.
    fn region_inputs(&self, _region: usize, _: &mut Infer<'_>) -> Inferred {
        Ok(Vec::<Type>::new())
    }

    /// Returns the input that lists sizes or axes, and the number of its elements for which the
    /// first output has `rank` axes. `data` is the rank of input 0. Returns `None` if no list
    /// determines the rank.
    fn count_for_rank(&self, _rank: usize, _data: usize) -> Option<(usize, usize)> {
        None
    }

    /// Returns a copy with `change` applied to every symbolic size in its attributes; `None` if it
    /// has none.
    fn with_sizes(&self, _change: &dyn Fn(&Dim) -> Dim) -> Option<Rc<dyn Op>> {
        None
    }

    /// Returns whether a node is needed even if nothing reads its outputs.
    fn is_kept(&self) -> bool {
        false
    }

    /// Returns whether the operator draws random numbers.
    fn is_random(&self) -> bool {
        false
    }

    /// Infers the types of the outputs.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not fit the operator, or
    /// [`Stop::Unknown`](super::Stop::Unknown) if their types are unknown.
    fn infer(&self, cx: &mut Infer<'_>) -> Inferred;

    /// Reports which outputs are views of inputs, and which inputs can be computed inside of an
    /// output.
    fn views(&self, _: &mut Views<'_>) {}

    /// Selects the kernel calls that compute the operator.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel supports the node.
    fn lower(&self, cx: &mut Lower<'_>) -> Result;

    /// Sets the gradients of the inputs from those of the outputs. An input without a gradient does
    /// not affect the outputs differentiably; an operator that sets none has zero gradients.
    ///
    /// # Errors
    ///
    /// Returns an error if the operator has no gradient.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        Err(no_gradient(&*g.node().op, ""))
    }
}

/// An operator set (ONNX's domain).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// `ai.onnx`, also written as the empty string.
    Onnx,
    /// `ai.onnx.ml`: classical machine learning.
    Ml,
    /// `ai.onnx.preview.training`.
    Training,
    /// `ai.onnx.preview`.
    Preview,
    /// `com.microsoft`: the operators that ONNX Runtime adds.
    Microsoft,
    /// onnxc's own operators, which passes create.
    Internal,
}

impl Domain {
    /// Returns the operator set called `name`.
    pub fn from_name(name: &str) -> Option<Domain> {
        Some(match name {
            "" | "ai.onnx" => Domain::Onnx,
            "ai.onnx.ml" => Domain::Ml,
            "ai.onnx.preview.training" | "ai.onnx.training" => Domain::Training,
            "ai.onnx.preview" => Domain::Preview,
            "com.microsoft" => Domain::Microsoft,
            "internal" => Domain::Internal,
            _ => return None,
        })
    }

    /// Returns the newest version that onnxc supports.
    pub fn newest(self) -> i64 {
        match self {
            Domain::Onnx => 28,
            Domain::Ml => 5,
            Domain::Training | Domain::Preview | Domain::Microsoft | Domain::Internal => 1,
        }
    }
}

/// A version of an operator set: `ai.onnx:21`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorSet {
    /// The name of the operator set; the empty string is `ai.onnx`.
    pub domain: String,
    /// The version.
    pub version: i64,
}

impl OperatorSet {
    /// Returns the newest supported version of an operator set.
    pub fn newest(domain: Domain) -> OperatorSet {
        OperatorSet { domain: domain.to_string(), version: domain.newest() }
    }
}

impl fmt::Display for OperatorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domain = domain::shown(&self.domain);
        write!(f, "{domain}:{}", self.version)
    }
}

impl FromStr for OperatorSet {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<OperatorSet> {
        let parts = text.rsplit_once(':');
        let set = parts.and_then(|(domain, version)| {
            let version = version.parse().ok().filter(|version| *version > 0)?;
            Some(OperatorSet { domain: domain.to_owned(), version })
        });
        set.ok_or_else(|| {
            let message = format!("{} is not an operator set", quoted(text));
            Diagnostic::new(Code::BadOption, message).help("write it as `ai.onnx:21`")
        })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::Onnx => "ai.onnx",
            Domain::Ml => "ai.onnx.ml",
            Domain::Training => "ai.onnx.preview.training",
            Domain::Preview => "ai.onnx.preview",
            Domain::Microsoft => "com.microsoft",
            Domain::Internal => "internal",
        })
    }
}

impl dyn Op {
    /// Returns the operator as a `T`, if it is one.
    pub fn downcast<T: Op>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Returns whether the operator is a `T`.
    pub fn is<T: Op>(&self) -> bool {
        (self as &dyn Any).is::<T>()
    }

    /// Returns whether both are the same operator with the same attributes.
    pub fn same(&self, other: &dyn Op) -> bool {
        let attributes = |op: &dyn Op| {
            let mut attributes = Attributes::default();
            op.attributes(&mut attributes);
            attributes
        };
        (self.domain(), self.name()) == (other.domain(), other.name())
            && attributes(self) == attributes(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_assumed_without_an_import() {
        for domain in [Domain::Ml, Domain::Microsoft] {
            let assumed = domain::assumed_version(&domain.to_string());
            assert_eq!(assumed, Some(domain.newest()));
        }
    }

    #[test]
    fn an_operator_set_is_printed_as_it_is_parsed() {
        for text in ["ai.onnx:21", "ai.onnx.ml:5", "com.example:1"] {
            let set: OperatorSet = text.parse().expect("the text is an operator set");
            assert_eq!(set.to_string(), text);
        }
        let main = OperatorSet { domain: String::new(), version: 1 };
        assert_eq!(main.to_string(), "ai.onnx:1");
        for text in ["ai.onnx", "ai.onnx:", "ai.onnx:x", "ai.onnx:0", ""] {
            assert!(text.parse::<OperatorSet>().is_err(), "{text}");
        }
    }
}
