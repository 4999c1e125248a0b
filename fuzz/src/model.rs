//! A model of any bytes: decode, check, compile, and parse the module.

use onnxc::{Compiler, Optimize, Options};

/// Runs the target.
pub fn run(bytes: &[u8]) {
    drop(Compiler::new(&Options::default()).check_bytes(bytes.to_vec().into()));
    compile(bytes, Optimize::Speed);
}

/// Compiles a model; the module, if there is one, must parse.
pub fn compile(bytes: &[u8], optimize: Optimize) {
    let mut options = Options::default();
    options.optimize = optimize;
    let compiled = Compiler::new(&options).compile_bytes(bytes.to_vec().into(), "model");
    match compiled {
        Err(diagnostics) => assert!(!diagnostics.0.is_empty(), "an error has a diagnostic"),
        Ok(compiled) => {
            let parsed = syn::parse_file(&compiled.module.code);
            assert!(parsed.is_ok(), "the module does not parse: {:?}", parsed.err());
        }
    }
}
