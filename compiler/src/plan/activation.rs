//! Activation functions of epilogues, as a field of a formula and as text.

use super::{Field, SizeText, Symbols};
use onnxc_runtime::kernels::epilogue::Activation;

/// Returns the name of a function, and its parameters by name, in order.
pub fn parts(f: Activation) -> (&'static str, Vec<(&'static str, f32)>) {
    match f {
        Activation::Identity => ("Identity", vec![]),
        Activation::Relu => ("Relu", vec![]),
        Activation::LeakyRelu { alpha } => ("LeakyRelu", vec![("alpha", alpha)]),
        Activation::ThresholdedRelu { alpha } => ("ThresholdedRelu", vec![("alpha", alpha)]),
        Activation::Clip { min, max } => ("Clip", vec![("min", min), ("max", max)]),
        Activation::Sigmoid => ("Sigmoid", vec![]),
        Activation::HardSigmoid { alpha, beta } => {
            ("HardSigmoid", vec![("alpha", alpha), ("beta", beta)])
        }
        Activation::Tanh => ("Tanh", vec![]),
        Activation::ScaledTanh { alpha, beta } => {
            ("ScaledTanh", vec![("alpha", alpha), ("beta", beta)])
        }
        Activation::Affine { alpha, beta } => ("Affine", vec![("alpha", alpha), ("beta", beta)]),
        Activation::Elu { alpha } => ("Elu", vec![("alpha", alpha)]),
        Activation::Selu { alpha, gamma } => ("Selu", vec![("alpha", alpha), ("gamma", gamma)]),
        Activation::Celu { alpha } => ("Celu", vec![("alpha", alpha)]),
        Activation::Softplus => ("Softplus", vec![]),
        Activation::Softsign => ("Softsign", vec![]),
        Activation::Swish { alpha } => ("Swish", vec![("alpha", alpha)]),
        Activation::HardSwish => ("HardSwish", vec![]),
        Activation::Mish => ("Mish", vec![]),
        Activation::Gelu => ("Gelu", vec![]),
        Activation::GeluTanh => ("GeluTanh", vec![]),
    }
}

/// Returns the function of a name and parameters in the order of [`parts`].
pub fn from_parts(name: &str, parameters: &[f32]) -> Option<Activation> {
    Some(match (name, parameters) {
        ("Identity", []) => Activation::Identity,
        ("Relu", []) => Activation::Relu,
        ("LeakyRelu", &[alpha]) => Activation::LeakyRelu { alpha },
        ("ThresholdedRelu", &[alpha]) => Activation::ThresholdedRelu { alpha },
        ("Clip", &[min, max]) => Activation::Clip { min, max },
        ("Sigmoid", []) => Activation::Sigmoid,
        ("HardSigmoid", &[alpha, beta]) => Activation::HardSigmoid { alpha, beta },
        ("Tanh", []) => Activation::Tanh,
        ("ScaledTanh", &[alpha, beta]) => Activation::ScaledTanh { alpha, beta },
        ("Affine", &[alpha, beta]) => Activation::Affine { alpha, beta },
        ("Elu", &[alpha]) => Activation::Elu { alpha },
        ("Selu", &[alpha, gamma]) => Activation::Selu { alpha, gamma },
        ("Celu", &[alpha]) => Activation::Celu { alpha },
        ("Softplus", []) => Activation::Softplus,
        ("Softsign", []) => Activation::Softsign,
        ("Swish", &[alpha]) => Activation::Swish { alpha },
        ("HardSwish", []) => Activation::HardSwish,
        ("Mish", []) => Activation::Mish,
        ("Gelu", []) => Activation::Gelu,
        ("GeluTanh", []) => Activation::GeluTanh,
        _ => return None,
    })
}

impl Field for Activation {
    type Number = Activation;
    type Given<'a> = Activation;

    fn source(&self, sizes: &SizeText<'_>) -> String {
        let (name, parameters) = parts(*self);
        let fields: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.source(sizes)))
            .collect();
        if fields.is_empty() {
            format!("Activation::{name}")
        } else {
            format!("Activation::{name} {{ {} }}", fields.join(", "))
        }
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        paths.push("kernels::epilogue::Activation");
    }

    fn number(&self, _: &Symbols<'_>) -> Activation {
        *self
    }

    fn give(number: &Activation) -> Activation {
        *number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_rust_and_can_be_read_again() {
        let relu6 = Activation::Clip { min: 0.0, max: 6.0 };
        assert_eq!(
            relu6.source(&|size| format!("{size:?}")),
            "Activation::Clip { min: 0.0, max: 6.0 }"
        );
        let open = Activation::Clip { min: f32::NEG_INFINITY, max: 1.5 };
        assert_eq!(
            open.source(&|size| format!("{size:?}")),
            "Activation::Clip { min: f32::NEG_INFINITY, max: 1.5 }"
        );
        assert_eq!(
            Activation::HardSwish.source(&|size| format!("{size:?}")),
            "Activation::HardSwish"
        );
        for f in [relu6, open, Activation::HardSwish, Activation::Swish { alpha: 0.5 }] {
            let (name, parameters) = parts(f);
            let values: Vec<f32> = parameters.iter().map(|(_, value)| *value).collect();
            assert_eq!(from_parts(name, &values), Some(f));
        }
        assert_eq!(from_parts("Clip", &[0.0]), None);
    }
}
