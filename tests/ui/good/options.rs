//! Every option.
#![deny(warnings)]

pub mod fixed {
    onnxc_macros::include_onnx!(
        "models/scale.onnxtxt",
        name = "half",
        dims(batch = 2, "sequence length" = 3),
        consts(by = 0.5, keep = false),
        arena = struct,
        limits(nodes = 1_000, loop_work = 0),
        deny_warnings = true,
        taps = true,
        profile = true,
        weights = inline,
    );

    pub fn run(x: &[f32; 6]) -> [f32; 6] {
        *Half::new().infer(x)
    }
}

pub mod bounded {
    use onnxc_macros::include_onnx;
    use onnxc_runtime::{Result, view::View};

    include_onnx!(
        "models/scale.onnxtxt",
        dims(batch = 1..=8, "sequence length" = 1..=16,),
        arena = heap
    );
    include_onnx!(
        "models/scale.onnxtxt",
        name = "negative",
        dims(batch = 1, "sequence length" = 1),
        consts(by = -1, keep = false)
    );

    pub fn run<'m>(model: &'m mut Scale, x: View<'_, f32, 2>) -> Result<View<'m, f32, 2>> {
        model.infer(x, Negative::new().infer(&[2.0])[0], true)
    }
}

pub mod renamed {
    use onnxc_runtime::{Result, view::View};

    onnxc_macros::include_onnx!(
        "models/scale.onnxtxt",
        name = "square",
        dims(batch = side, "sequence length" = "side", side = 1..=4)
    );

    pub fn run<'m>(model: &'m mut Square, x: View<'_, f32, 2>) -> Result<View<'m, f32, 2>> {
        model.infer(x, 1.0, true)
    }
}
