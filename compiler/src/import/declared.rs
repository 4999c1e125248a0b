//! Compares the types that a model declares with the inferred ones.

use super::{
    context::{GraphBuilder, Scope},
    types::{self, Dimensions},
};
use crate::{
    diag::{Code, Diagnostic, Severity, quoted},
    dim::Dim,
    dtype::DType,
    ir::ValueId,
    ops::optional::OptionalGetElement,
    ty::Type,
};
use onnxc_proto::{TypeProto, ValueInfoProto};

impl GraphBuilder<'_> {
    /// The type that the model declares for a value, if it does and the type is valid.
    pub(super) fn declared(&mut self, value: &ValueInfoProto) -> Option<Type> {
        let at = format!("value {}", quoted(value.name()));
        let proto = self.stated(value)?;
        let ty = types::ty(proto, value.name(), &mut self.dims);
        self.found.keep(ty.map_err(|diagnostic| diagnostic.within(at)))
    }

    /// The type that the model declares for an output, as [`GraphBuilder::declared`].
    pub(super) fn declared_of_output(&mut self, value: &ValueInfoProto) -> Option<Type> {
        let at = format!("value {}", quoted(value.name()));
        let proto = self.stated(value)?;
        let ty = self.dims.of_output(|dims| types::ty(proto, value.name(), dims));
        self.found.keep(ty.map_err(|diagnostic| diagnostic.within(at)))
    }

    /// The type in the declaration of a value, if it is valid and says anything: converters write
    /// empty types.
    fn stated<'v>(&self, value: &'v ValueInfoProto) -> Option<&'v TypeProto> {
        let proto = value.r#type.as_ref().filter(|ty| ty.value.is_some())?;
        Some(proto).filter(|_| !self.checked.is_faulty(value))
    }

    /// Converts an output to its declared type, and compares the two. Returns the output and its
    /// type, which is the inferred one if the shapes differ. A loop-carried optional that is
    /// declared as its content gets an `OptionalGetElement`, though the loop may end before it has
    /// a value.
    pub(super) fn as_declared(
        &mut self,
        name: &str,
        declared: Type,
        id: ValueId,
    ) -> (ValueId, Type) {
        let inferred = self.graph[id].ty.clone();
        let is_optional = |ty: &Type| matches!(ty, Type::Optional(_));
        if is_optional(&inferred) && !is_optional(&declared) && declared != Type::Unknown {
            let content = self.graph.add(self.graph.body, name, OptionalGetElement, &[id]);
            return (self.found.keep(content).unwrap_or(id), declared);
        }
        match differ(&declared, &inferred) {
            None => (id, declared),
            Some(difference) => {
                let diagnostic = match difference {
                    // The declared type is that of the model's interface.
                    Difference::Elements => mismatch(&declared, &inferred),
                    Difference::Shape => mended(difference, &declared, &inferred),
                };
                self.found.push(diagnostic.within(format!("output {}", quoted(name))));
                (id, inferred)
            }
        }
    }

    /// Compares the declared types of inner values with the inferred ones, which count: a tool that
    /// changes the precision of a model may leave declarations behind. If the user sets sizes, only
    /// element types are compared: the model is right for other sizes.
    pub(super) fn inner_types<'v>(
        &mut self,
        declared: impl IntoIterator<Item = &'v ValueInfoProto>,
        scope: &Scope<'_>,
    ) {
        let is_as_written = !self.settings.fixes_sizes();
        for value in declared {
            let Some(id) = scope.values.get(value.name()) else { continue };
            // Its dimensions are not those of the model's interface.
            let mut dims = Dimensions::new(self.settings);
            let declared =
                self.stated(value).and_then(|ty| types::ty(ty, value.name(), &mut dims).ok());
            let Some(declared) = declared else { continue };
            let inferred = self.graph[id].ty.clone();
            let difference = differ(&declared, &inferred)
                .filter(|difference| is_as_written || *difference == Difference::Elements);
            if let Some(difference) = difference {
                let warning = mended(difference, &declared, &inferred);
                self.found.push(warning.within(format!("value {}", quoted(value.name()))));
            }
        }
    }
}

/// The error for a declared type that differs from the inferred one.
fn mismatch(declared: &Type, inferred: &Type) -> Diagnostic {
    let message = format!("the model declares {declared}, but its nodes give {inferred}");
    Diagnostic::new(Code::DeclaredMismatch, message)
}

/// The warning for a declared type in whose place the inferred one counts.
fn mended(difference: Difference, declared: &Type, inferred: &Type) -> Diagnostic {
    let note = match difference {
        Difference::Elements => "the type that the nodes give counts",
        Difference::Shape => "the shape that the nodes give counts",
    };
    Diagnostic { severity: Severity::Warning, ..mismatch(declared, inferred) }.note(note)
}

/// How a declared type differs from an inferred one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// In the element type, or the kind of the value.
    Elements,
    /// In the rank, or in a size that both know.
    Shape,
}

/// Compares the declared type of a value with the inferred one.
fn differ(declared: &Type, inferred: &Type) -> Option<Difference> {
    match (declared, inferred) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            let mut sizes = a.shape.iter().zip(&b.shape);
            let differ =
                |(a, b): (&Dim, &Dim)| a.known().is_some() && b.known().is_some() && a != b;
            if a.dtype != b.dtype {
                Some(Difference::Elements)
            } else if a.rank() != b.rank() || sizes.any(differ) {
                Some(Difference::Shape)
            } else {
                None
            }
        }
        (Type::Sequence(a), Type::Sequence(b)) | (Type::Optional(a), Type::Optional(b)) => {
            differ(a, b)
        }
        _ => {
            let elements = element(declared).zip(element(inferred));
            let is_other = elements.is_some_and(|(a, b)| a != b)
                || is_container(declared) && element(inferred).is_some()
                || is_container(inferred) && element(declared).is_some();
            is_other.then_some(Difference::Elements)
        }
    }
}

/// Returns whether a type is one of values that hold tensors.
fn is_container(ty: &Type) -> bool {
    match ty {
        Type::Sequence(_) | Type::Map(..) => true,
        Type::Tensor(_)
        | Type::Unranked(_)
        | Type::Optional(_)
        | Type::Never(_)
        | Type::Sparse(_)
        | Type::Unknown => false,
    }
}

/// The element type of a tensor type.
fn element(ty: &Type) -> Option<DType> {
    match ty {
        Type::Tensor(ty) => Some(ty.dtype),
        Type::Unranked(dtype) => Some(*dtype),
        Type::Sequence(_)
        | Type::Optional(_)
        | Type::Map(..)
        | Type::Never(_)
        | Type::Sparse(_)
        | Type::Unknown => None,
    }
}
