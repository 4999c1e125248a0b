//! Scalar arguments of kernels, of any element type.

use super::{Field, SizeText, Symbols};
use crate::{
    array::{Array, Element},
    tensor::{Data, Tensor},
};

/// A scalar of any element type.
#[derive(Clone, Debug)]
pub struct Literal(Array);

/// The scalar, for the interpreter.
#[derive(Clone, Copy)]
pub struct Given<'a>(&'a Array);

impl Given<'_> {
    /// Returns the scalar, which has the element type of the call.
    pub fn get<T: Element>(self) -> T {
        let found = T::of(self.0).and_then(|elements| elements.first());
        found.expect("the call is for the type of the element").clone()
    }
}

impl Literal {
    /// Returns the first element of a constant; zero, false or empty if it has none.
    pub fn first(tensor: &Tensor) -> Literal {
        let array = Array::from_tensor(tensor);
        Literal(if array.is_empty() { Array::zeroed(tensor.dtype, 1) } else { array.part(0, 1) })
    }

    /// Returns the name of the type, if the runtime library defines it.
    fn path(&self) -> Option<&'static str> {
        self.0.dtype().rust().strip_prefix("::onnxc_runtime::")?.split('<').next()
    }
}

impl Field for Literal {
    type Number = Array;
    type Given<'a> = Given<'a>;

    fn source(&self, sizes: &SizeText<'_>) -> String {
        let tensor = self.0.clone().into_tensor(Vec::new());
        let bits = || tensor.bytes().iter().rev().fold(0u32, |bits, &b| bits << 8 | u32::from(b));
        match (&self.0, &tensor.data, self.path()) {
            (Array::C64(x), ..) => {
                format!(
                    "Complex {{ re: {}, im: {} }}",
                    x[0].re.source(sizes),
                    x[0].im.source(sizes)
                )
            }
            (Array::C128(x), ..) => {
                format!(
                    "Complex {{ re: {}, im: {} }}",
                    x[0].re.source(sizes),
                    x[0].im.source(sizes)
                )
            }
            (Array::F32(x), ..) => x[0].source(sizes),
            (Array::F64(x), ..) => x[0].source(sizes),
            (Array::Bool(x), ..) => x[0].source(sizes),
            (Array::U64(x), ..) => x[0].to_string(),
            (_, Data::Strings(x), _) => format!("String::from({:?})", x[0]),
            (_, _, Some(path)) if tensor.dtype.is_float() => {
                format!("{path}::from_bits({})", bits())
            }
            (_, _, path) => {
                let int = tensor.ints().map_or(0, |ints| ints[0]);
                path.map_or(int.to_string(), |path| format!("{path}::new({int})"))
            }
        }
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        paths.extend(self.path());
    }

    fn number(&self, _: &Symbols<'_>) -> Array {
        self.0.clone()
    }

    fn give(number: &Array) -> Given<'_> {
        Given(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn elements_are_rust() {
        let check = |dtype, bytes: &[u8], expected: &str| {
            let data = Data::Bytes(bytes.to_vec().into());
            let literal = Literal::first(&Tensor { dtype, shape: vec![1], data });
            assert_eq!(literal.source(&|size| format!("{size:?}")), expected);
        };
        check(DType::F32, &1.5f32.to_le_bytes(), "1.5");
        check(DType::F64, &f64::NAN.to_le_bytes(), "f64::NAN");
        check(DType::F16, &[0, 0x3c], "f16::from_bits(15360)");
        check(DType::F8E4M3FN, &[0x38], "F8E4M3FN::from_bits(56)");
        check(DType::I4, &[0xff], "I4::new(-1)");
        check(DType::U64, &u64::MAX.to_le_bytes(), "18446744073709551615");
        check(DType::I16, &[0xfe, 0xff], "-2");
        check(DType::Bool, &[1], "true");
        let complex = [1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat();
        check(DType::C64, &complex, "Complex { re: 1.0, im: 2.0 }");
        let strings = Tensor::from_strings(vec!["a \"b\"".into()]);
        assert_eq!(
            Literal::first(&strings).source(&|size| format!("{size:?}")),
            r#"String::from("a \"b\"")"#
        );
    }

    #[test]
    fn the_library_is_asked_for_its_types() {
        let uses = |dtype| {
            let mut paths = Vec::new();
            Literal(Array::zeroed(dtype, 1)).uses(&mut paths);
            paths
        };
        assert_eq!((uses(DType::C64), uses(DType::I2)), (vec!["Complex"], vec!["I2"]));
        assert!(uses(DType::F32).is_empty());
    }
}
