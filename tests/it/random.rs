//! Random numbers in a generated module: each run draws new ones, and equal seeds draw equal ones.

onnxc_macros::include_onnx!("models/random.onnxtxt");

/// Runs the model and returns one list for each output.
fn run(model: &mut Random) -> [Vec<f32>; 4] {
    let output = model.infer(&[0.5; 64], 2).expect("every iteration fits");
    [
        output.normal.to_vec(),
        output.seeded.to_vec(),
        output.drawn.data().to_vec(),
        output.dropped.to_vec(),
    ]
}

#[test]
fn each_run_draws_new_numbers_and_a_seed_restarts_them() {
    let mut model = Random::new();
    let (first, second) = (run(&mut model), run(&mut model));
    for (i, (first, second)) in first.iter().zip(&second).enumerate() {
        assert_ne!(first, second, "output {i}");
    }
    let iterations = first[2].split_at(64);
    assert_ne!(iterations.0, iterations.1, "each iteration of a loop draws anew");
    assert_eq!(run(&mut Random::new()), first, "another model draws the same");
    model.set_seed(0);
    assert_eq!([run(&mut model), run(&mut model)], [first.clone(), second]);
    model.set_seed(1);
    let other = run(&mut model);
    let same: Vec<bool> = other.iter().zip(&first).map(|(other, first)| other == first).collect();
    assert_eq!(same, [false, true, false, true], "nodes with seeds of their own keep them");
}
