mod cache;
mod explicit;

use onnxc_runtime::{Error, view::View};

fn main() {
    let (mut model, mut explicit) = (cache::Cache::new(), explicit::Explicit::new());
    let numbers: Vec<f32> = (0..64).map(|i| ((i * 37 % 29) as f32 - 14.0) / 10.0).collect();
    for _ in 0..2 {
        let (mut k, mut v) = (Vec::new(), Vec::new());
        for (run, size) in [1, 2, 1, 1].into_iter().enumerate() {
            let shape = [1, 2, size, 4];
            let part = |from: usize| View::new(shape, &numbers[from..][..8 * size]).unwrap();
            let (q, new_k, new_v) = (part(run), part(run + 20), part(run + 40));
            let past = [1, 2, k.len() / 8, 4];
            let past = [View::new(past, &k).unwrap(), View::new(past, &v).unwrap()];
            let expected = explicit.infer(q, new_k, new_v, past[0], past[1]).unwrap();
            assert_eq!(model.infer(q, new_k, new_v).unwrap().data(), expected.y.data());
            (k, v) = (expected.present_k.data().to_vec(), expected.present_v.data().to_vec());
        }
        // The cache holds five positions, of which the next run can take only four.
        let x = View::new([1, 2, 1, 4], &numbers[..8]).unwrap();
        let error = model.infer(x, x, x).unwrap_err();
        assert!(matches!(error, Error::Bound { name: "past", bound: 4, found: 5 }), "{error}");
        assert_eq!(model.infer(x, x, x).unwrap_err(), error);
        model.reset();
    }
}
