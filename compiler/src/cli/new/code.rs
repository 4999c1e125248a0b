//! The code that calls the methods of a module, for each kind of package.

use super::port::{Port, Ports};
use onnxc::{
    diag::Result,
    emit::{Form, Signature},
    import::{Const, Settings, Size},
};
use serde_json::json;

/// The placeholders of a template, with their values.
pub type Values = Vec<(&'static str, String)>;

/// A method of the model's struct.
pub struct Method<'s> {
    pub name: &'s str,
    pub signature: &'s Signature,
    pub ports: Ports,
}

impl Method<'_> {
    /// Returns the call, and whether it returns a `Result`. `slices` selects the method that takes
    /// slices for arrays. `in_arena` selects the method that takes the arena.
    fn call(&self, slices: bool, in_arena: bool) -> (String, bool) {
        let has_array = |port: &Port| matches!(port.form, Form::Array(_));
        let checks = slices && self.ports.inputs.iter().any(has_array);
        let prefix = if checks { "try_" } else { "" };
        let (suffix, arena) = if in_arena { ("_in", Some("arena".to_owned())) } else { ("", None) };
        let inputs = self.ports.inputs.iter().map(Port::argument);
        let arguments: Vec<String> = arena.into_iter().chain(inputs).collect();
        let call = format!("model.{prefix}{}{suffix}({})", self.name, arguments.join(", "));
        (call, checks || self.signature.refuses)
    }

    /// Returns the code of a program with the standard library that runs the method on zeros.
    pub fn hosted(&self) -> Result<Values> {
        let is_view = |port: &Port| matches!(port.form, Form::View(_) | Form::Heap(_));
        let has_view = self.ports.inputs.iter().any(is_view);
        let imports = if has_view { "use onnxc_runtime::view::View;\n" } else { "" };
        let declare = self.ports.inputs.iter().map(Port::declare);
        let print = self.ports.outputs.iter().map(Port::print);
        Ok(vec![
            ("imports", imports.to_owned()),
            ("inputs", declare.collect::<Result<_>>()?),
            ("call", bind(self.call(true, false))),
            ("prints", print.collect::<Result<_>>()?),
        ])
    }

    /// Returns the code of a server, which reads inputs from bytes and writes outputs to bytes.
    pub fn served(&self) -> Values {
        let (mut types, mut decode, mut at) = (String::from("//!\n"), String::new(), 0);
        for port in &self.ports.inputs {
            let (name, element) = (&port.code, port.element());
            let end = at + port.len() * port.dtype.bytes() as i64;
            decode += &format!("let ({name}, _) = body[{at}..{end}].as_chunks();\n");
            decode += &match port.is_scalar() {
                true => format!("let {name} = {element}::from_le_bytes({name}[0]);\n"),
                false => format!(
                    "let {name}: Vec<{element}> = \
                    {name}.iter().map(|&bytes| {element}::from_le_bytes(bytes)).collect();\n"
                ),
            };
            at = end;
        }
        let kinds = self.ports.inputs.iter().map(|port| ("input", port));
        for (kind, port) in kinds.chain(self.ports.outputs.iter().map(|port| ("output", port))) {
            let (name, element, shape) = (&port.name, port.element(), &port.shape);
            types += &format!("//! - {kind} `{}`: `{element}` {shape:?}\n", one_line(name));
        }
        let encode = self.ports.outputs.iter().map(|port| match port.is_scalar() {
            true => format!("answer.extend({}.to_le_bytes());\n", port.code),
            false => {
                format!("answer.extend({}.iter().flat_map(|x| x.to_le_bytes()));\n", port.code)
            }
        });
        vec![
            ("types", types),
            ("input_bytes", at.to_string()),
            ("decode", decode),
            ("call", bind(self.call(true, true))),
            ("encode", encode.collect()),
        ]
    }

    /// Returns the code of firmware, which runs the method on zeros in flash.
    pub fn embedded(&self) -> Values {
        let (mut statics, mut prints) = (String::new(), String::new());
        let mut arguments = Vec::new();
        for (i, port) in self.ports.inputs.iter().enumerate() {
            let (len, element, zero) = (port.len(), port.element(), port.zero());
            statics += &format!(
                "/// The input `{}`.\nstatic INPUT_{i}: [{element}; {len}] = [{zero}; {len}];\n",
                one_line(&port.name)
            );
            arguments.push(match port.is_scalar() {
                true => format!("INPUT_{i}[0]"),
                false => format!("&INPUT_{i}"),
            });
        }
        for port in &self.ports.outputs {
            let (name, code, len) = (&port.name, &port.code, port.len().min(10));
            let shown = if port.is_scalar() { code.clone() } else { format!("&{code}[..{len}]") };
            prints += &format!("hprintln!(\"{{}}: {{:?}}\", {name:?}, {shown});\n");
        }
        let call = format!("MODEL.{}({})", self.name, arguments.join(", "));
        let call = self.unwrap_in_core(&call);
        vec![("statics", statics), ("call", call), ("prints", prints)]
    }

    /// Returns the code of a WebAssembly module, whose inputs and outputs are statics, and of the
    /// JavaScript that calls it.
    pub fn exported(&self) -> Values {
        let [mut statics, mut addresses, mut copies, mut set, mut get] =
            [const { String::new() }; 5];
        let mut zeros = Vec::new();
        let mut arguments = Vec::new();
        for (i, port) in self.ports.inputs.iter().enumerate() {
            statics += &declare_static("INPUT", i, port);
            addresses += &address("input", i, port);
            let (name, array, len) = (json!(port.name), typed_array(port), port.len());
            set += &format!("view({array}, wasm.input_{i}(), {len}).set(inputs[{name}]);\n");
            zeros.push(format!("{name}: new {array}({len})"));
            arguments.push(match port.is_scalar() {
                true => format!("INPUT_{i}[0]"),
                false => format!("&*addr_of!(INPUT_{i})"),
            });
        }
        for (i, port) in self.ports.outputs.iter().enumerate() {
            statics += &declare_static("OUTPUT", i, port);
            addresses += &address("output", i, port);
            copies += &match port.is_scalar() {
                true => format!("OUTPUT_{i} = [{}];\n", port.code),
                false => format!("OUTPUT_{i} = *{};\n", port.code),
            };
            let (name, array, len) = (json!(port.name), typed_array(port), port.len());
            get += &format!("{name}: view({array}, wasm.output_{i}(), {len}).slice(),\n");
        }
        let call = format!("model.{}({})", self.name, arguments.join(", "));
        vec![
            ("statics", statics),
            ("addresses", addresses.trim_end().to_owned()),
            ("call", self.unwrap_in_core(&call)),
            ("copies", copies),
            ("set", set),
            ("get", get),
            ("zeros", format!("{{ {} }}", zeros.join(", "))),
        ]
    }

    /// Returns the line that binds the result of a call where there is no `main` that returns it.
    fn unwrap_in_core(&self, call: &str) -> String {
        if self.signature.refuses {
            let failure = "panic!(\"the model rejects the inputs\");";
            return format!("let Ok(outputs) = {call} else {{\n    {failure}\n}};\n");
        }
        format!("let outputs = {call};\n")
    }
}

/// Returns the line that binds the result of a call.
fn bind((call, is_result): (String, bool)) -> String {
    format!("let outputs = {call}{};\n", if is_result { "?" } else { "" })
}

/// Returns the line that initializes the variables of a model.
pub fn init((name, signature): &(String, Signature)) -> String {
    format!("model.{name}(){};\n", if signature.refuses { "?" } else { "" })
}

/// Returns the lines of a build script that set sizes and constants.
pub fn settings(settings: &Settings) -> String {
    let dims = settings.dims.iter().map(|(name, size)| {
        let size = match size {
            Size::Fixed(size) => size.to_string(),
            Size::Between(least, most) => format!("{least}..={most}"),
            Size::Same(other) => format!("{other:?}"),
        };
        format!("let model = model.dim({name:?}, {size});\n")
    });
    let constants = settings.consts.iter().map(|(name, value)| match value {
        Const::Value(value) => format!("let model = model.constant({name:?}, {value:?});\n"),
        Const::Default => format!("let model = model.default_constant({name:?});\n"),
    });
    dims.chain(constants).collect()
}

fn declare_static(kind: &str, i: usize, port: &Port) -> String {
    let (element, zero, len) = (port.element(), port.zero(), port.len());
    format!("static mut {kind}_{i}: [{element}; {len}] = [{zero}; {len}];\n")
}

/// Returns the function that returns the address of a port.
fn address(kind: &str, i: usize, port: &Port) -> String {
    let (pointer, address) =
        if kind == "input" { ("mut", "addr_of_mut") } else { ("const", "addr_of") };
    let (element, name, of) = (port.element(), one_line(&port.name), kind.to_uppercase());
    format!(
        "/// Returns the address of the {kind} `{name}`.\n\
        #[unsafe(no_mangle)]\n\
        pub extern \"C\" fn {kind}_{i}() -> *{pointer} {element} {{\n    \
        {address}!({of}_{i}).cast()\n\
        }}\n\n"
    )
}

/// Returns the JavaScript type of an array with the elements of a port.
fn typed_array(port: &Port) -> String {
    let element = port.element();
    let (kind, bits) = element.split_at(1);
    let kind = match (kind, bits) {
        ("f", _) => "Float",
        ("i", "64") => "BigInt",
        ("u", "64") => "BigUint",
        ("i", _) => "Int",
        _ => "Uint",
    };
    format!("{kind}{bits}Array")
}

/// Returns a name for a comment, which ends with the line.
fn one_line(name: &str) -> String {
    name.escape_debug().to_string()
}
