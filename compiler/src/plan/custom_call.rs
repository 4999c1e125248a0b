//! The parameters of a call of a user-defined operator.

use super::{Args, Custom, Form, Params, SizeText, Symbols};
use crate::dim::Dim;
use onnxc_runtime::{Error, Result};

impl Params for Custom {
    fn source(&self, _: &SizeText<'_>) -> Vec<String> {
        Vec::new()
    }

    fn uses(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        let parameters = self.inputs.iter().chain(&self.outputs);
        let types = parameters.filter_map(|parameter| parameter.ty.as_ref());
        types.flat_map(|ty| &ty.shape).for_each(see);
    }

    fn run(&self, _: Form, _: &Symbols<'_>, _: &mut Args<'_>) -> Result {
        Err(Error::Value("a function of the program can be called by the generated module alone"))
    }

    fn custom(&self) -> Option<&Custom> {
        Some(self)
    }
}
