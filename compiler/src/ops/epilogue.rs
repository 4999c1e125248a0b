//! The attributes of a fused epilogue: an activation function that a kernel applies to its
//! accumulators.

use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ir::{Attributes, Reader},
    plan::activation::{from_parts, parts},
};
use onnxc_runtime::kernels::epilogue::Activation;

impl Attributes {
    /// Writes the activation function of the epilogue, unless it is the identity.
    pub fn activation(&mut self, f: Activation) {
        if f == Activation::Identity {
            return;
        }
        let (name, parameters) = parts(f);
        self.string("activation", name);
        if !parameters.is_empty() {
            let values: Vec<f32> = parameters.into_iter().map(|(_, value)| value).collect();
            self.floats("activation_parameters", &values);
        }
    }
}

impl Reader<'_> {
    /// Reads the activation function of the epilogue; the identity by default.
    ///
    /// # Errors
    ///
    /// Returns an error if an attribute has another type, or if no activation has this name and
    /// these parameters.
    pub fn activation(&mut self) -> Result<Activation> {
        let name = self.string("activation", "Identity")?;
        let parameters = self.maybe_floats("activation_parameters")?.unwrap_or_default();
        from_parts(&name, &parameters).ok_or_else(|| {
            let message = format!("there is no activation {} with {parameters:?}", quoted(&name));
            Diagnostic::new(Code::BadAttribute, message)
        })
    }
}
