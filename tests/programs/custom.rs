mod custom;

use onnxc_runtime::view::View;

mod ops {
    use onnxc_runtime::{
        Error, Result,
        custom::{Attribute, Attributes, View, ViewMut},
    };

    pub fn clip(x: View<f32, 2>, mut y: ViewMut<f32, 2>, attributes: Attributes) -> Result {
        assert_eq!(x.shape(), y.shape());
        assert_eq!(attributes.ints("axes"), Some(&[0, 1][..]));
        assert_eq!(attributes.string("mode"), Some("hard"));
        assert_eq!(attributes.get("most"), Some(Attribute::Float(1.5)));
        let most = attributes.float("most").ok_or(Error::Value("`most` is missing"))?;
        for (y, x) in y.data_mut().iter_mut().zip(x.data()) {
            *y = x.min(most);
        }
        Ok(())
    }

    pub fn mix(
        a: View<f32, 2>,
        b: Option<View<f32, 2>>,
        mut y: ViewMut<f32, 2>,
        _: Attributes,
    ) -> Result {
        let b = b.unwrap_or(a);
        for (y, (a, b)) in y.data_mut().iter_mut().zip(a.data().iter().zip(b.data())) {
            *y = a + b;
        }
        Ok(())
    }

    pub fn norm(x: View<f32, 2>, y: ViewMut<f32, 1>, _: Attributes) -> Result {
        for (y, row) in y.into_data().iter_mut().zip(x.data().chunks(x.shape()[1])) {
            *y = row.iter().map(|x| x * x).sum();
            if *y > 1000.0 {
                return Err(Error::Value("a row is too long"));
            }
        }
        Ok(())
    }
}

fn main() {
    let mut model = custom::Custom::new();
    let given = model.infer((&[[1.0, 2.0, 3.0]]).into()).unwrap();
    assert_eq!(given.y.data(), [3.0, 5.0, 6.0]);
    assert_eq!(given.norm.data(), [70.0]);
    let error = model.infer((&[[1.0, 2.0, 300.0]]).into()).unwrap_err();
    assert_eq!(error.to_string(), "a row is too long");
    let none: [[f32; 3]; 0] = [];
    let empty = View::new([0, 3], none.as_flattened()).unwrap();
    assert_eq!(model.infer(empty).unwrap().norm.shape(), [0]);
}
