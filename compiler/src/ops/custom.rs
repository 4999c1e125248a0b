//! Custom operators, bound to user-defined functions. The compiler does not know what they compute:
//! the model declares the types of their outputs, and the plan calls the function.

use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ir::{Attribute, Attributes, Domain, Infer, Inferred, Lower, Op},
    plan::{
        Arg, Call, Step,
        custom::{self, Parameter},
    },
    ty::Type,
};

/// A node of a custom operator.
pub struct Custom {
    /// The operator, with its domain.
    pub operator: String,
    /// The path of the user's function.
    pub function: String,
    /// The attributes, sorted by name.
    pub attributes: Vec<(String, custom::Attribute)>,
    /// The types of the outputs; `None` for an omitted one.
    pub outputs: Vec<Option<Type>>,
    /// For each input, whether some node of the operator omits it.
    pub optional_inputs: Vec<bool>,
    /// For each output, whether some node of the operator omits it.
    pub optional_outputs: Vec<bool>,
}

/// Converts an attribute to the form in which the user's function receives it. Attributes that are
/// neither numbers nor strings are errors.
pub fn function_attribute(name: &str, value: Attribute) -> Result<custom::Attribute> {
    let utf8 = |bytes: Vec<u8>| {
        let bad = |_| attribute_error(name, "is not UTF-8");
        String::from_utf8(bytes).map_err(bad)
    };
    Ok(match value {
        Attribute::Int(value) => custom::Attribute::Int(value),
        Attribute::Float(value) => custom::Attribute::Float(value),
        Attribute::Ints(values) => custom::Attribute::Ints(values),
        Attribute::Floats(values) => custom::Attribute::Floats(values),
        Attribute::String(bytes) => custom::Attribute::String(utf8(bytes)?),
        Attribute::Strings(all) => {
            custom::Attribute::Strings(all.into_iter().map(utf8).collect::<Result<_>>()?)
        }
        Attribute::Tensor(_)
        | Attribute::Type(_)
        | Attribute::Tensors(_)
        | Attribute::Types(_)
        | Attribute::Sparse(..)
        | Attribute::Graph(_)
        | Attribute::Graphs(_) => {
            let problem =
                format!("is {}, but functions accept only numbers and strings", value.kind());
            return Err(attribute_error(name, &problem));
        }
    })
}

fn attribute_error(name: &str, problem: &str) -> Diagnostic {
    let message = format!("the attribute {} {problem}", quoted(name));
    Diagnostic::new(Code::Unsupported, message)
}

impl Op for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn label(&self) -> String {
        self.operator.clone()
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, out: &mut Attributes) {
        out.string("operator", &self.operator);
        out.string("function", &self.function);
        let attributes = self.attributes.iter();
        let attributes: Vec<String> =
            attributes.map(|(k, value)| format!("{k} = {value:?}")).collect();
        out.strings("attributes", &attributes);
        let types = self.outputs.iter();
        let types: Vec<String> = types.map(|ty| format!("{ty:?}")).collect();
        out.strings("types", &types);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        for i in (0..cx.given()).filter(|&i| cx.has(i)) {
            cx.ty(i)?;
        }
        Ok(self.outputs.iter().map(|ty| ty.clone().unwrap_or(Type::Unknown)).collect())
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let (mut parameters, mut results) = (Vec::new(), Vec::new());
        for (i, &is_optional) in self.optional_inputs.iter().enumerate() {
            let ty = if cx.has(i) { Some(cx.ty(i)?.clone()) } else { None };
            parameters.push(Parameter { ty, is_optional });
            inputs.push(Arg::Optional(cx.optional(i)?));
        }
        for (i, &is_optional) in self.optional_outputs.iter().enumerate() {
            let operand = cx.optional_output(i)?;
            let ty = if operand.is_some() { Some(cx.output_ty(i)?.clone()) } else { None };
            if ty.is_none() && !is_optional {
                let message = format!("output {i} of {} is unused", self.operator);
                return Err(Diagnostic::new(Code::Unsupported, message));
            }
            results.push(Parameter { ty, is_optional });
            outputs.push(Arg::Optional(operand));
        }
        let custom = custom::Custom {
            operator: self.operator.clone(),
            function: self.function.clone(),
            inputs: parameters,
            outputs: results,
            attributes: self.attributes.clone(),
        };
        cx.step(Step::Call(Call::custom(cx.comment(), custom, inputs, outputs)));
        Ok(())
    }
}
