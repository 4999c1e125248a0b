//! Two modules of one model include the same weights file.

use onnxc_runtime::arena::Weights;

mod mlp;
#[path = "mlp.rs"]
mod again;

fn main() {
    let features = [0.5, -1.0, 2.0];
    let included = *mlp::Mlp::new().infer(&features);
    assert_eq!(included, *again::Mlp::new().infer(&features));

    let weights = Weights::from(include_bytes!("mlp.weights").to_vec());
    assert_eq!(weights.verify(), Ok(()));
    let mut mlp = mlp::Mlp::with_weights(weights).expect("these are its weights");
    assert_eq!(included, *mlp.infer(&features));
}
