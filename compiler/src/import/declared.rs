//! Compares the types that a model declares with the inferred ones.

use super::{
    context::{GraphBuilder, Scope},
    types::{self, Dimensions},
};
use crate::{
    diag::{Code, Diagnostic, quoted},
    dim::Dim,
    dtype::DType,
    ir::ValueId,
    ops::optional::OptionalGetElement,
    ty::Type,
};
use onnxc_proto::ValueInfoProto;

impl GraphBuilder<'_> {
    /// The type that the model declares for a value, if it does and the type is valid.
    pub(super) fn declared(&mut self, value: &ValueInfoProto) -> Option<Type> {
        let at = format!("value {}", quoted(value.name()));
        let proto = value.r#type.as_ref().filter(|_| !self.checked.is_faulty(value))?;
        let ty = types::ty(proto, value.name(), &mut self.dims);
        self.found.keep(ty.map_err(|diagnostic| diagnostic.within(at)))
    }

    /// Converts an output to its declared type, and compares the two. A loop-carried optional that
    /// is declared as its content gets an `OptionalGetElement`, though the loop may end before it
    /// has a value.
    pub(super) fn as_declared(&mut self, name: &str, declared: &Type, id: ValueId) -> ValueId {
        let inferred = self.graph[id].ty.clone();
        let is_optional = |ty: &Type| matches!(ty, Type::Optional(_));
        if is_optional(&inferred) && !is_optional(declared) && *declared != Type::Unknown {
            let content = self.graph.add(self.graph.body, name, OptionalGetElement, &[id]);
            return self.found.keep(content).unwrap_or(id);
        }
        self.compare(name, declared, &inferred);
        id
    }

    /// Compares the declared element types of inner values with the inferred ones. Their sizes are
    /// not compared: exporters often write those of another batch.
    pub(super) fn inner_types<'v>(
        &mut self,
        declared: impl IntoIterator<Item = &'v ValueInfoProto>,
        scope: &Scope<'_>,
    ) {
        for value in declared {
            let Some(&id) = scope.values.get(value.name()) else { continue };
            // Its dimensions are not those of the model's interface.
            let mut dims = Dimensions::new(self.settings);
            let declared = value.r#type.as_ref().filter(|_| !self.checked.is_faulty(value));
            let declared = declared.and_then(|ty| types::ty(ty, value.name(), &mut dims).ok());
            let Some(declared) = declared else { continue };
            let inferred = &self.graph[id].ty;
            if element(&declared).zip(element(inferred)).is_some_and(|(a, b)| a != b) {
                let message =
                    format!("the model declares {declared}, but its nodes give {inferred}");
                let diagnostic = Diagnostic::new(Code::DeclaredMismatch, message);
                self.found.push(diagnostic.within(format!("value {}", quoted(value.name()))));
            }
        }
    }

    /// Compares the declared type of an output with the inferred one.
    fn compare(&mut self, name: &str, declared: &Type, inferred: &Type) {
        let fits = match (declared, inferred) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                let sizes = a.shape.iter().zip(&b.shape);
                let differ =
                    |(a, b): (&Dim, &Dim)| a.known().is_some() && b.known().is_some() && a != b;
                a.dtype == b.dtype && a.rank() == b.rank() && !sizes.into_iter().any(differ)
            }
            _ => true,
        };
        if !fits {
            let message = format!("the model declares {declared}, but its nodes give {inferred}");
            let diagnostic = Diagnostic::new(Code::DeclaredMismatch, message);
            self.found.push(diagnostic.within(format!("output {}", quoted(name))));
        }
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
