//! What an operator has to say for itself.

use super::{Attributes, Gradient, Infer, Inferred, Lower, Views, gradient::no_gradient};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    domain,
    ty::Type,
};
use std::{any::Any, fmt, rc::Rc, str::FromStr};

/// One operator with its attributes, in the newest form that ONNX has for it.
pub trait Op: Any {
    /// The operator's name, as ONNX spells it.
    fn name(&self) -> &'static str;

    /// The operator's name, for people.
    fn label(&self) -> String {
        self.name().to_owned()
    }

    /// The operator set that it belongs to.
    fn domain(&self) -> Domain {
        Domain::Onnx
    }

    /// Says every attribute as the newest version has it, and which region stands for which graph.
    /// The dump prints them, `export` writes them, and equal text is an equal operator.
    fn attributes(&self, _: &mut Attributes) {}

    /// The types of what the region of that number is given; asked before the region is built.
    fn region_inputs(&self, _region: usize, _: &mut Infer<'_>) -> Inferred {
        Ok(Vec::<Type>::new())
    }

    /// The same with `change` done to each size that it names by symbols of the graph; nothing where
    /// it names none.
    fn with_sizes(&self, _change: &dyn Fn(&Dim) -> Dim) -> Option<Rc<dyn Op>> {
        None
    }

    /// Whether it gives something else each time.
    fn is_random(&self) -> bool {
        false
    }

    /// The types of the outputs.
    fn infer(&self, cx: &mut Infer<'_>) -> Inferred;

    /// Says which outputs are views of inputs, and which inputs can be made inside an output.
    fn views(&self, _: &mut Views<'_>) {}

    /// The kernel calls that compute it.
    fn lower(&self, cx: &mut Lower<'_>) -> Result;

    /// The derivatives of the inputs, by those of the outputs. An input whose derivative is not
    /// said does not change the output; an operator of which that holds for all says nothing.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        Err(no_gradient(&*g.node().op, ""))
    }
}

/// An operator set.
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
    /// onnxc's own: what passes make of several nodes.
    Internal,
}

impl Domain {
    /// The operator set of that name.
    pub fn from_name(name: &str) -> Option<Domain> {
        Some(match name {
            "" | "ai.onnx" => Domain::Onnx,
            "ai.onnx.ml" => Domain::Ml,
            "ai.onnx.preview.training" | "ai.onnx.training" => Domain::Training,
            "ai.onnx.preview" => Domain::Preview,
            "internal" => Domain::Internal,
            _ => return None,
        })
    }

    /// The newest version that onnxc knows.
    pub fn newest(self) -> i64 {
        match self {
            Domain::Onnx => 28,
            Domain::Ml => 5,
            Domain::Training | Domain::Preview | Domain::Internal => 1,
        }
    }
}

/// An operator set in one of its versions: `ai.onnx:21`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorSet {
    /// The name of the set; the empty string is `ai.onnx`.
    pub domain: String,
    /// The version.
    pub version: i64,
}

impl OperatorSet {
    /// The newest version of a set that onnxc knows.
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
            Domain::Internal => "internal",
        })
    }
}

impl dyn Op {
    /// The operator, where it is of that type.
    pub fn downcast<T: Op>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Whether the operator is of that type.
    pub fn is<T: Op>(&self) -> bool {
        (self as &dyn Any).is::<T>()
    }

    /// Whether the two are the same operator with the same attributes.
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
    fn an_operator_set_is_printed_as_it_is_parsed() {
        for text in ["ai.onnx:21", "ai.onnx.ml:5", "com.example:1"] {
            let set: OperatorSet = text.parse().expect("it is one");
            assert_eq!(set.to_string(), text);
        }
        let main = OperatorSet { domain: String::new(), version: 1 };
        assert_eq!(main.to_string(), "ai.onnx:1");
        for text in ["ai.onnx", "ai.onnx:", "ai.onnx:x", "ai.onnx:0", ""] {
            assert!(text.parse::<OperatorSet>().is_err(), "{text}");
        }
    }
}
