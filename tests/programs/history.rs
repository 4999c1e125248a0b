mod history;

fn main() {
    let mut model = history::History::new();
    let mut sum = [0.0; 2];
    for i in 0..9u8 {
        let x = [f32::from(i), 1.0];
        sum = [sum[0] + x[0], sum[1] + x[1]];
        assert_eq!(model.infer(&x).unwrap(), &sum);
    }
    assert!(model.infer(&[0.0; 2]).is_err());
    model.reset();
    assert_eq!(model.infer(&[1.0, 2.0]).unwrap(), &[1.0, 2.0]);
}
