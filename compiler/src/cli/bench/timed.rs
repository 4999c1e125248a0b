//! The method that is timed: inference, or a training step.

use crate::cli::test::glue;
use onnxc::{
    diag::{Code, Diagnostic, quoted},
    emit::{self, Signature, Style},
    plan::{Algorithm, Plan, Training},
};

/// A method that is timed.
pub struct Timed<'o> {
    /// The plan of the method.
    pub plan: &'o Plan,
    /// The name and the signature of the method.
    method: (String, Signature),
    /// The code that runs once before.
    begin: String,
    /// The method that takes an observer, if the module has one.
    profiled: Option<&'static str>,
}

impl<'o> Timed<'o> {
    /// Times inference.
    pub fn inference(plan: &'o Plan, style: &Style) -> Timed<'o> {
        let method = ("infer".into(), emit::signature(plan, style));
        Timed { plan, method, begin: String::new(), profiled: None }
    }

    /// Times inference of a module that was generated with `--profile`.
    pub fn profiled(plan: &'o Plan, style: &Style) -> Timed<'o> {
        Timed { profiled: Some("infer_profiled"), ..Timed::inference(plan, style) }
    }

    /// Times a step of the algorithm called `name`, or of the only one, starting from initial
    /// values.
    pub fn step(
        training: Option<&'o Training>,
        name: Option<&str>,
        style: &Style,
    ) -> Result<Timed<'o>, Diagnostic> {
        let training = training.ok_or_else(|| {
            bad_option("the model has no training information".into())
                .help("`onnxc train-prep` adds it")
        })?;
        let at = position(&training.steps, name)?;
        let mut methods = emit::signatures(training, style);
        let begin = glue::init(&methods[0]);
        // The first two are `init` and `infer`.
        let method = methods.swap_remove(2 + at);
        Ok(Timed { plan: &training.steps[at].plan, method, begin, profiled: None })
    }

    /// The code that calls the method.
    pub fn code(&self) -> String {
        glue::serve(&self.method, self.plan, &self.begin, self.profiled)
    }
}

fn position(steps: &[Algorithm], name: Option<&str>) -> Result<usize, Diagnostic> {
    let names = || {
        let names: Vec<String> = steps.iter().map(|step| quoted(&step.name)).collect();
        format!("its algorithms are {}", names.join(", "))
    };
    match (name, steps) {
        (None, [_]) => Ok(0),
        (None, []) => Err(bad_option("the model has no algorithm".into())),
        (None, _) => {
            let diagnostic = bad_option("the model has several algorithms".into()).note(names());
            Err(diagnostic.help("select one: `--step=NAME`"))
        }
        (Some(name), _) => steps.iter().position(|step| step.name == name).ok_or_else(|| {
            bad_option(format!("the model has no algorithm {}", quoted(name))).note(names())
        }),
    }
}

fn bad_option(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadOption, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxc::{
        Options,
        train::{Loss, Method, Optimizer, Prepare},
    };
    use onnxc_proto::Message as _;

    /// A trainable linear model.
    fn training() -> Training {
        let text = "<ir_version: 8, opset_import: [\"\": 21]>
            line (float[4, 2] x) => (float[4, 1] y)
            <float[2, 1] w = {0.5, -0.5}> { y = MatMul(x, w) }";
        let prepare = Prepare::new(Loss::Mse, Optimizer::from(Method::Sgd));
        let model = prepare.bytes(text.into()).expect("the model can be trained");
        let bytes = model.encode_to_vec().into();
        let training = onnxc::Compiler::new(&Options::default()).training_plans(bytes);
        training.expect("the model is valid").expect("the model has training information")
    }

    #[test]
    fn a_step_is_timed_from_first_values_on_and_inference_without_them() {
        let training = training();
        let style =
            Options::default().style(&training.infer, "model").expect("the arena is in the struct");
        let step =
            Timed::step(Some(&training), None, &style).expect("`prepare` writes one algorithm");
        let code = step.code();
        assert!(code.contains("model.init();") && code.contains("model.step(a0, a1)"), "{code}");
        let code = Timed::inference(&training.infer, &style).code();
        assert!(!code.contains("model.init") && code.contains("model.infer(a0)"), "{code}");
        assert!(!code.contains("Profile") && code.contains("Node] = &[];"), "{code}");
        let code = Timed::profiled(&training.infer, &style).code();
        assert!(code.contains("model.infer_profiled(a0, observers)"), "{code}");
        assert!(code.contains("Node] = Model::NODES;"), "{code}");
        assert!(Timed::step(None, None, &style).is_err());
    }

    #[test]
    fn several_algorithms_require_a_name() {
        let plan = training().infer;
        let algorithm = |name: &str| Algorithm { name: name.into(), plan: plan.clone() };
        let steps = [algorithm("fit"), algorithm("average")];
        assert_eq!(position(&steps[..1], None).ok(), Some(0));
        assert_eq!(position(&steps, Some("average")).ok(), Some(1));
        let said = |name| position(&steps, name).expect_err("no algorithm is selected").to_string();
        assert!(said(None).contains("--step=NAME"), "{}", said(None));
        assert!(said(Some("fat")).contains("`fit`, `average`"), "{}", said(Some("fat")));
        assert!(position(&[], None).is_err());
    }
}
