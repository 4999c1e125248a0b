//! `onnxc new PATH MODEL --kind KIND`: writes a package that uses a model.

mod code;
mod kind;
mod port;
mod template;

use super::{
    analysis,
    bench::inputs::free_sizes,
    files, message,
    options::one_of,
    progress,
    sources::{Crate, Sources},
    usage,
};
use code::{Method, Values};
use kind::Kind;
use onnxc::{
    ArenaIn, CompiledModel, Compiler, Optimize, Weights,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    emit, file,
    plan::{Plan, Training},
    train::{self, Loss, Prepare},
};
use onnxc_proto::{Message as _, ModelProto};
use port::{Ports, Unfit};
use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Writes a package that uses a model
///
/// The package builds and runs as it is, on zeros. Kinds with a build script have a copy of the
/// model, which the build script compiles; the others have the generated module and its weights.
#[derive(clap::Args)]
pub struct Options {
    /// The folder of the package, which must not exist. Its last part is the package's name
    path: PathBuf,
    /// The model
    model: PathBuf,
    /// The kind of package
    #[arg(long, value_enum)]
    kind: Kind,
    /// The size of a free dimension: `N`, a bound `1..=N`, or the name of another dimension
    #[arg(long, value_name = "NAME=SIZE")]
    dim: Vec<String>,
    /// Fix an input to a constant: a number or a list in brackets; without a value, its default
    #[arg(long = "const", id = "const", value_name = "NAME[=VALUE]")]
    constants: Vec<String>,
    /// The loss of a training program, `cross-entropy` by default
    #[arg(long, value_parser = one_of::<Loss>())]
    loss: Option<Loss>,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<ExitCode, Diagnostics> {
    if options.loss.is_some() && options.kind != Kind::Train {
        let error = Diagnostic::new(Code::BadOption, "only a training program has a loss");
        return Ok(usage::refuse(&error.help("set `--kind train`, or omit `--loss`").into()));
    }
    let package = package_name(&options.path)?;
    if fs::symlink_metadata(&options.path).is_ok() {
        return Err(exists(&options.path).into());
    }
    progress::enter("compile", options.model.display().to_string());
    let (kind, compile) = (options.kind, compile_options(options)?);
    let mut compiled = Compiler::new(&compile).compile(&options.model)?;
    message::print_warnings(std::mem::take(&mut compiled.warnings));
    if kind.has_build_script() {
        compiled.files.iter().try_for_each(|data| copyable(data))?;
    }
    let mut values = match kind {
        Kind::Train => training_values(options, &compile)?,
        _ => inference_values(kind, &compiled, &compile)
            .map_err(|errors| errors.within(&options.model.display().to_string()))?,
    };
    let has_images = compiled.plans.call_kernels_of("image");
    values.extend(manifest_values(package, &Sources::find()?, has_images));
    values.extend([
        ("file", format!("model.{}", extension(&options.model))),
        ("settings", code::settings(&compile.settings)),
        ("loss", format!("{:?}", options.loss())),
        ("command", command(options, &compile)),
        ("weight_bytes", compiled.plans.infer().weight_bytes.to_string()),
        ("arena_bytes", compiled.plans.infer().arena_bytes.to_string()),
    ]);
    write(options, &compiled, &values)?;
    let (kind, command) = options.kind.describe();
    let path = options.path.display();
    progress::hide();
    eprintln!("     Created {kind} {}", quoted(&path.to_string()));
    eprintln!("        next: cd {path} && {command}");
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn loss(&self) -> Loss {
        self.loss.unwrap_or(Loss::CrossEntropy)
    }
}

/// Returns the name of the package, which is the last part of its path.
fn package_name(path: &Path) -> Result<&str, Diagnostic> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_part) {
        return Ok(name);
    }
    let name = if name.is_empty() { path.to_str().unwrap_or_default() } else { name };
    let message = format!("{} is no name of a package", quoted(name));
    Err(Diagnostic::new(Code::BadOption, message)
        .help("a name starts with a letter, and has letters, digits, `-` and `_`"))
}

fn exists(path: &Path) -> Diagnostic {
    let message = format!("{} exists already", quoted(&path.display().to_string()));
    Diagnostic::new(Code::BadOption, message).help("name a new folder")
}

/// Returns the options of compiling the module `model`.
fn compile_options(options: &Options) -> Result<onnxc::Options, Diagnostic> {
    let mut compile = onnxc::Options::default();
    options.dim.iter().try_for_each(|dim| compile.set("dim", dim))?;
    options.constants.iter().try_for_each(|constant| compile.set("const", constant))?;
    compile.name = Some("model".into());
    compile.stem.clone_from(&compile.name);
    compile.weights = Weights::File;
    if options.kind.is_bare() {
        compile.arena = Some(ArenaIn::Struct);
    }
    if options.kind == Kind::Wasm {
        compile.optimize = Optimize::Size;
    }
    Ok(compile)
}

/// Returns the code that runs the model.
fn inference_values(
    kind: Kind,
    compiled: &CompiledModel,
    options: &onnxc::Options,
) -> Result<Values, Diagnostics> {
    let plan = compiled.plans.infer();
    let signature = emit::signature(plan, &options.style(plan, "model")?);
    let ports = Ports::of(plan, &signature);
    if kind != Kind::BuildScript {
        Diagnostics(unfit_ports(plan, &ports)).into_warnings()?;
    }
    if kind.is_bare() {
        require_no_heap(plan)?;
    }
    let method = Method { name: "infer", signature: &signature, ports };
    match kind {
        Kind::BuildScript | Kind::Train => Ok(method.hosted()?),
        Kind::Server => Ok(method.served()),
        Kind::Firmware => Ok(method.embedded()),
        Kind::Wasm => Ok(method.exported()),
    }
}

/// Returns the code that trains the model.
fn training_values(options: &Options, compile: &onnxc::Options) -> Result<Values, Diagnostics> {
    let training = training(options, compile)?;
    let methods = emit::signatures(&training, &compile.style(&training.infer, "model")?);
    // The first two are `init` and `infer`.
    let (name, signature) = &methods[2];
    let ports = Ports::of(&training.steps[0].plan, signature);
    let mut values = Method { name, signature, ports }.hosted()?;
    values.push(("init", code::init(&methods[0])));
    Ok(values)
}

/// Makes the model trainable, as the build script of the template does, and plans it.
fn training(options: &Options, compile: &onnxc::Options) -> Result<Training, Diagnostics> {
    let directory = options.model.parent().map(Path::to_owned).unwrap_or_default();
    let optimizer = train::Optimizer::from(train::Method::Adam);
    let model = Prepare::new(options.loss(), optimizer).directory(directory);
    let bytes = files::bytes(&options.model)?;
    let plan =
        |model: ModelProto| Compiler::new(compile).training_plans(model.encode_to_vec().into());
    let training = model.bytes(bytes).and_then(plan);
    let training = training.map_err(|all| all.within(&options.model.display().to_string()))?;
    Ok(training.expect("`Prepare` adds training information"))
}

/// Returns the errors for inputs and outputs that cannot be copied from or to bytes.
fn unfit_ports(plan: &Plan, ports: &Ports) -> Vec<Diagnostic> {
    let sizes = free_sizes(plan).into_iter().map(|name| format!("--dim {name}=N"));
    let unfit = ports.inputs.iter().filter(|port| port.unfit() == Some(Unfit::NoNumbers));
    let scalars = unfit.filter(|port| port.is_scalar());
    let constants = scalars.map(|port| format!("--const {}=VALUE", port.name));
    let kinds = [
        (Unfit::FreeSizes, "have free sizes", sizes.collect()),
        (Unfit::NoNumbers, "are neither", constants.collect()),
    ];
    let error = |(kind, what, options): (Unfit, &str, Vec<String>)| {
        let named = ports.all().filter(|port| port.unfit() == Some(kind));
        let names: Vec<String> = named.map(|port| quoted(&port.name)).collect();
        let names = names.join(", ");
        let needs = "this kind of package needs numbers and arrays of numbers with fixed sizes";
        let fix = match options.is_empty() {
            true => String::new(),
            false => format!("set `{}`, or ", options.join(" ")),
        };
        let error = Diagnostic::new(Code::BadOption, format!("{needs}, but these {what}: {names}"));
        (!names.is_empty()).then(|| error.help(format!("{fix}use `--kind build-script`")))
    };
    kinds.into_iter().filter_map(error).collect()
}

/// Returns an error for a model that needs the heap.
fn require_no_heap(plan: &Plan) -> Result<(), Diagnostic> {
    let on_heap = analysis::heap_buffers(plan);
    let Some((buffer, reason)) = on_heap.first() else { return Ok(()) };
    let message = "the model needs the heap, which this kind of package has not";
    Err(Diagnostic::new(Code::BadOption, message)
        .note(format!("{} is on the heap: {reason}", quoted(&buffer.name)))
        .help("bound free sizes with `--dim NAME=1..=N`"))
}

/// Returns the values in a manifest.
fn manifest_values(package: &str, sources: &Sources, has_images: bool) -> Values {
    let comment = match sources {
        Sources::Workspace(_) => format!(
            "# The paths are those of the sources of onnxc {0} on this machine. Where a registry \
            has this\n# version, replace them by `version = \"{0}\"`.",
            env!("CARGO_PKG_VERSION")
        ),
        Sources::Version(_) => String::new(),
    };
    let dependency = |of| {
        let images = if has_images { ", features = [\"image\"]" } else { "" };
        format!("{}{images}", sources.dependency(of))
    };
    let kernels = if has_images { "\"all-kernels\", \"image\"" } else { "\"all-kernels\"" };
    let kernels = format!("default-features = false, features = [{kernels}]");
    vec![
        ("package", package.to_owned()),
        ("library", package.replace('-', "_")),
        ("comment", comment),
        ("runtime", dependency(Crate::Runtime)),
        ("kernels", format!("{}, {kernels}", sources.dependency(Crate::Runtime))),
        ("compiler", dependency(Crate::Compiler)),
        ("proto", sources.dependency(Crate::Proto)),
    ]
}

/// Returns the command that generates the module.
fn command(options: &Options, compile: &onnxc::Options) -> String {
    let model = options.model.file_name().unwrap_or_default().to_string_lossy();
    let mut arguments = compile.to_arguments();
    arguments.retain(|argument| !argument.starts_with("--name "));
    let parts = [format!("onnxc {} -o src/model.rs", model.escape_debug())];
    parts.into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The extension of the model's copy: that of text, or else that of the binary format.
fn extension(model: &Path) -> &'static str {
    if model.extension().is_some_and(|end| end == "onnxtxt") { "onnxtxt" } else { "onnx" }
}

/// Writes the package.
fn write(options: &Options, compiled: &CompiledModel, values: &Values) -> Result<(), Diagnostics> {
    let (root, kind) = (&options.path, options.kind);
    create(&root.join(".gitignore"), b"/target\n")?;
    for (path, template) in kind.files() {
        create(&root.join(path), template::fill(template, values).as_bytes())?;
    }
    if !kind.has_build_script() {
        compiled.write(&root.join("src/model.rs"))?;
        return Ok(());
    }
    let copy = format!("model.{}", extension(&options.model));
    create(&root.join(copy), &files::bytes(&options.model)?)?;
    let beside = options.model.parent().unwrap_or(Path::new(""));
    for data in &compiled.files {
        create(&root.join(data), &files::bytes(&beside.join(data))?)?;
    }
    Ok(())
}

/// Checks that no tool reads external data in a package as code or as settings: a model from a
/// stranger must not bring a `.cargo/config.toml`.
fn copyable(data: &Path) -> Result<(), Diagnostic> {
    let is_read = |name: &str| {
        let name = name.to_lowercase();
        // Windows drops dots and spaces at the end of a name.
        let name = name.trim_end_matches(['.', ' ']);
        let ends = [".rs", ".toml", ".lock"].iter().any(|end| name.ends_with(end));
        ends || name.starts_with('.') || ["rust-toolchain", "target"].contains(&name)
    };
    let mut names = data.iter().map(|name| name.to_string_lossy());
    if !names.any(|name| is_read(&name)) {
        return Ok(());
    }
    let name = quoted(&data.display().to_string());
    let message = format!("the external data {name} has a name of code or of settings");
    Err(Diagnostic::new(Code::BadExternalData, message)
        .help("rename the file: load the model in Python, and save it with another `location`"))
}

/// Creates a file, and the folders around it. A file that exists is an error.
fn create(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).map_err(file::refused(folder))?;
    let written = File::create_new(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(file::refused(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_a_tool_would_read_is_not_copied() {
        for name in ["model.data", "data/model.onnx_data", "src/weights", "a.rs.bin"] {
            assert!(copyable(Path::new(name)).is_ok(), "{name}");
        }
        for name in [
            ".cargo/config.toml",
            ".cargo/config",
            ".git/config",
            "src/bin/x.rs",
            "Build.RS",
            "rust-toolchain",
            "Cargo.lock",
            "clippy.toml",
            "deep/.cargo/config",
            "src/bin/x.rs.",
            "Cargo.lock ",
            "target/release/x",
        ] {
            assert!(copyable(Path::new(name)).is_err(), "{name}");
        }
    }
}
