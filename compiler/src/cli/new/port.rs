//! The inputs and outputs of a method, and the code for each.

use onnxc::{
    diag::{Code, Diagnostic, Result, quoted},
    dtype::DType,
    emit::{Form, Signature},
    ident::{self, Names},
    plan::{self, Plan},
};

/// An input or an output.
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// The variable of an input, or the expression of an output.
    pub code: String,
    pub form: Form,
    pub dtype: DType,
    /// The size of each axis, with 1 for sizes that are free.
    pub shape: Vec<i64>,
}

/// Why a port cannot be copied from or to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// An array of sizes that are known at run time.
    FreeSizes,
    /// No tensor, or one whose elements have no bytes in Rust.
    NoNumbers,
}

/// The inputs and outputs of a method.
pub struct Ports {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Ports {
    /// Returns the ports of the method that runs `plan`.
    pub fn of(plan: &Plan, signature: &Signature) -> Ports {
        let mut names = Names::default();
        for word in RESERVED {
            names.unique((*word).to_owned());
        }
        let inputs = plan.inputs.iter().zip(&signature.inputs).map(|(port, form)| {
            let code = names.unique(ident::snake(&port.name));
            Port::new(port, form, code)
        });
        let is_single = signature.outputs.len() == 1;
        let outputs = plan.outputs.iter().zip(&signature.outputs).map(|(port, (field, form))| {
            let code = if is_single { "outputs".into() } else { format!("outputs.{field}") };
            Port::new(port, form, code)
        });
        Ports { inputs: inputs.collect(), outputs: outputs.collect() }
    }

    /// All inputs, and then all outputs.
    pub fn all(&self) -> impl Iterator<Item = &Port> {
        self.inputs.iter().chain(&self.outputs)
    }
}

/// The variables of the templates.
const RESERVED: &[&str] = &["answer", "arena", "body", "model", "outputs", "print", "read", "run"];

impl Port {
    fn new(port: &plan::Port, form: &Form, code: String) -> Port {
        let shape = port.shape().iter().map(|dim| dim.known().unwrap_or(1)).collect();
        let (name, form, dtype) = (port.name.clone(), form.clone(), port.dtype());
        Port { name, code, form, dtype, shape }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Returns the element type in Rust.
    pub fn element(&self) -> &'static str {
        if self.dtype == DType::String { "&str" } else { self.dtype.rust() }
    }

    /// Returns the literal of an element that is zero.
    pub fn zero(&self) -> &'static str {
        match self.element() {
            "f32" | "f64" => "0.0",
            "bool" => "false",
            "&str" => "\"\"",
            element if is_integer(element) => "0",
            _ => "Default::default()",
        }
    }

    /// Returns the lines that declare an input of zeros.
    pub fn declare(&self) -> Result<String> {
        let (name, element, zero, len) = (&self.code, self.element(), self.zero(), self.len());
        let data = format!("let {name}: Vec<{element}> = vec![{zero}; {len}];\n");
        Ok(match &self.form {
            Form::Scalar => format!("let {name}: {element} = {zero};\n"),
            Form::Array(_) => data,
            Form::View(_) | Form::Heap(_) => {
                format!("{data}let {name} = View::new({:?}, &{name})?;\n", self.shape)
            }
            Form::Optional(_) => String::new(),
            Form::Sequence | Form::Map(_) | Form::Maps(..) => return Err(self.no_tensor()),
        })
    }

    /// Returns the argument of an input.
    pub fn argument(&self) -> String {
        match self.form {
            Form::Optional(_) => "None".to_owned(),
            Form::Array(_) => format!("&{}", self.code),
            _ => self.code.clone(),
        }
    }

    /// Returns the line that prints an output.
    pub fn print(&self) -> Result<String> {
        let (name, code) = (&self.name, &self.code);
        Ok(match self.form {
            Form::Scalar => format!("print({name:?}, &[{code}]);\n"),
            Form::Array(_) => format!("print({name:?}, {code});\n"),
            Form::View(_) | Form::Heap(_) => format!("print({name:?}, {code}.data());\n"),
            Form::Sequence | Form::Map(_) | Form::Maps(..) | Form::Optional(_) => {
                return Err(self.no_tensor());
            }
        })
    }

    /// Returns why the port is no array of numbers that have bytes in Rust, if it is none.
    pub fn unfit(&self) -> Option<Unfit> {
        let element = self.element();
        let is_number = element.starts_with('f') || is_integer(element);
        match self.form {
            Form::Array(_) | Form::Scalar => (!is_number).then_some(Unfit::NoNumbers),
            Form::View(_) | Form::Heap(_) => Some(Unfit::FreeSizes),
            Form::Sequence | Form::Map(_) | Form::Maps(..) | Form::Optional(_) => {
                Some(Unfit::NoNumbers)
            }
        }
    }

    /// Returns whether the module takes or returns one element by value.
    pub fn is_scalar(&self) -> bool {
        matches!(self.form, Form::Scalar)
    }

    fn no_tensor(&self) -> Diagnostic {
        let message =
            format!("`onnxc new` writes no code for {}, which is no tensor", quoted(&self.name));
        Diagnostic::new(Code::BadOption, message)
            .help("compile the model with `onnxc MODEL -o model.rs`, and call the module")
    }
}

fn is_integer(element: &str) -> bool {
    matches!(element, "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64")
}
