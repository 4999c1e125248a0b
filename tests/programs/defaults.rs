mod constant;
mod defaults;
mod fixed;

use onnxc_runtime::view::View;

fn main() {
    let mut model = defaults::Defaults::new();
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let view = || View::new([2, 3], &x).unwrap();
    let left_out = model.infer(view(), None, None, None, None).unwrap();
    assert_eq!(left_out.twice.data(), ["lowlow", "highhigh"]);
    let y = left_out.y.data().to_vec();
    assert_eq!(y, [3.5, 5.25, 7.125, 7.5, 9.25, 11.125]);
    let given = model.infer(view(), Some(1.0), Some(&[0.0, 1.0]), Some((&[1.0; 3]).into()), None);
    assert_eq!(given.unwrap().y.data(), [2.0, 3.0, 4.0, 6.0, 7.0, 8.0]);
    let names = ["a", "b"];
    // The default has three elements.
    let narrow = View::new([2, 2], &x[..4]).unwrap();
    assert!(model.infer(narrow, None, None, None, None).is_err());
    assert!(model.infer(narrow, None, None, Some((&[0.0; 2]).into()), Some(&names)).is_ok());

    let mut model = fixed::Fixed::new();
    assert_eq!(model.infer(&x, None, None).unwrap().y, &[4.0, 7.0, 10.0, 8.0, 11.0, 14.0]);
    let given = model.infer(&x, Some(&[0.0, 0.0]), Some(&names)).unwrap();
    assert_eq!((given.y[0], given.twice.data()), (3.0, &["aa", "bb"].map(String::from)[..]));
    assert_eq!(constant::Constant::new().infer(&x).unwrap().y[..], y);
}
