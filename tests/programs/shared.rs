mod mlp;
mod own;
mod scale;

use onnxc_runtime::arena::{Block, InlineArena};

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

const BYTES: usize = larger(mlp::Mlp::PEAK_ARENA_BYTES, scale::Scale::PEAK_ARENA_BYTES);

fn main() {
    let mut arena = InlineArena::<{ BYTES.div_ceil(Block::BYTES) }>::new();
    let (scores, mut own) = (mlp::Mlp::new(), own::Own::new());
    let scale = scale::Scale::new();
    assert_eq!(size_of_val(&scores), size_of::<onnxc_runtime::arena::Weights>());
    for run in 0..3 {
        let features = [run as f32, -0.5, 2.0];
        assert_eq!(scores.infer_in(&mut arena, &features), own.infer(&features));
        assert_eq!(scale.infer_in(&mut arena, &[1.0; 6], 2.5, false), &[2.5; 6]);
    }
}
