//! Optional inputs, states, and custom operators.
#![deny(warnings)]

pub mod defaults {
    onnxc_macros::include_onnx!(
        "models/defaults.onnxtxt",
        dims(n = 3),
        consts(scale, offset = [0, 1])
    );
    onnxc_macros::include_onnx!(
        "models/defaults.onnxtxt",
        name = "constant",
        dims(n = 3),
        defaults = constant
    );

    pub fn run(x: &[f32; 6]) -> onnxc_runtime::Result<[f32; 6]> {
        Ok(*Defaults::new().infer(Constant::new().infer(x)?.y, None, None)?.y)
    }
}

pub mod state {
    onnxc_macros::include_onnx!(
        "models/stream.onnxtxt",
        state(h = h_next, "past" = "sum"),
        optimize = size,
    );

    pub fn run(model: &mut Stream, steps: &[[f32; 2]]) -> onnxc_runtime::Result<[f32; 3]> {
        model.reset();
        steps.iter().try_fold([0.0; 3], |_, x| model.infer(x).copied())
    }
}

pub mod custom {
    use onnxc_runtime::{
        Result,
        custom::{Attributes, View, ViewMut},
    };

    onnxc_macros::include_onnx!(
        "models/custom.onnxtxt",
        dims(n = 2),
        custom(
            "com.acme::Clip" = crate::custom::clip,
            "com.acme::Mix" = crate::custom::mix,
            "com.acme::Norm" = crate::custom::norm,
        ),
        types(clipped = "float[2, 3]"),
    );

    pub fn clip(_: View<f32, 2>, _: ViewMut<f32, 2>, _: Attributes) -> Result {
        Ok(())
    }

    pub fn mix(
        _: View<f32, 2>,
        _: Option<View<f32, 2>>,
        _: ViewMut<f32, 2>,
        _: Attributes,
    ) -> Result {
        Ok(())
    }

    pub fn norm(_: View<f32, 2>, _: ViewMut<f32, 1>, _: Attributes) -> Result {
        Ok(())
    }
}
