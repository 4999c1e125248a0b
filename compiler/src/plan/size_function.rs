//! Sizes that a function of the runtime library computes when the model runs: the scratch memory of
//! kernels.

use super::{Formula, SizeText, Symbols};
use crate::dim::Dim;

/// A function of the runtime library that computes a size from the geometry of a kernel.
pub struct SizeFunction<F: Formula> {
    /// The path in the runtime library.
    pub path: &'static str,
    /// Runs the function.
    pub run: for<'p> fn(F::Numbers<'p>) -> usize,
}

impl<F: Formula> Clone for SizeFunction<F> {
    fn clone(&self) -> SizeFunction<F> {
        *self
    }
}

impl<F: Formula> Copy for SizeFunction<F> {}

/// A [`SizeFunction`] with its geometry, independent of the geometry's type.
pub trait ComputedSize {
    /// Returns the path of the function in the runtime library.
    fn path(&self) -> &'static str;
    /// Returns the arguments of the function as Rust source.
    fn arguments(&self, sizes: &SizeText<'_>) -> Vec<String>;
    /// Calls `see` with every size of the geometry.
    fn visit(&self, see: &mut dyn FnMut(&Dim));
    /// Computes the size.
    fn eval(&self, symbols: &Symbols<'_>) -> usize;
}

impl<F: Formula> ComputedSize for (SizeFunction<F>, F) {
    fn path(&self) -> &'static str {
        self.0.path
    }

    fn arguments(&self, sizes: &SizeText<'_>) -> Vec<String> {
        let mut arguments = self.1.source(sizes);
        if let Some(geometry) = arguments.first_mut() {
            geometry.insert(0, '&');
        }
        arguments
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        self.1.visit(see);
    }

    fn eval(&self, symbols: &Symbols<'_>) -> usize {
        let mut found = 0;
        self.1.with(symbols, &mut |numbers| found = (self.0.run)(numbers));
        found
    }
}

/// A [`SizeFunction`] of a geometry: `size_function!(conv::conv_scratch)`. If it has other
/// arguments, they follow the geometry in the formula, and a closure passes them:
/// `size_function!(attention::attention_scratch, |f, p| f(&p.0, p.1))`.
macro_rules! size_function {
    ($module:ident :: $name:ident) => {
        $crate::plan::size_function!($module::$name, |f, p| f(&p))
    };
    ($module:ident :: $name:ident, |$f:ident, $p:ident| $body:expr) => {
        $crate::plan::SizeFunction {
            path: concat!("kernels::", stringify!($module), "::", stringify!($name)),
            run: |$p| {
                let $f = onnxc_runtime::kernels::$module::$name;
                $body
            },
        }
    };
}
pub(crate) use size_function;
