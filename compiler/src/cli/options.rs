//! The options that several commands take.

use onnxc::{Defaults, Optimize, Options, Precision, diag::Diagnostic};

/// The options of a compilation.
#[derive(clap::Args, Clone, Debug)]
pub struct Shared {
    /// Call the model, and its struct, something else than its file
    #[arg(long)]
    pub name: Option<String>,
    /// Fix a dimension (`batch=1`), or bound it (`batch=1..=32`)
    #[arg(long, value_name = "NAME=N")]
    pub dim: Vec<String>,
    /// Say the sizes of an input whose number of axes the model leaves open (`x=1,3,height,width`)
    #[arg(long, value_name = "NAME=SIZES")]
    pub shape: Vec<String>,
    /// Make an input a constant: a number, or several in brackets; without a value, its default
    #[arg(long = "const", value_name = "NAME[=VALUE]")]
    pub constant: Vec<String>,
    /// What becomes of inputs that have a default
    #[arg(long, value_enum, default_value = "argument")]
    defaults: DefaultsArg,
    /// Hand an output to the next run as an input: the model keeps it as its own state
    #[arg(long, value_name = "PAST=PRESENT")]
    pub state: Vec<String>,
    /// Have a function of your program called for an operator (`com.acme::Clip=crate::clip`)
    #[arg(long, value_name = "OPERATOR=PATH")]
    pub custom: Vec<String>,
    /// Say the type of a value that such a function gives (`y=float[n,10]`)
    #[arg(long = "type", value_name = "NAME=TYPE")]
    pub ty: Vec<String>,
    /// What matters most
    #[arg(long, value_enum, default_value = "speed")]
    optimize: OptimizeArg,
    /// In how many bits constant weights stand; without it, in as many as in the model. Sums stay
    /// those of `float`
    #[arg(long, value_enum)]
    precision: Option<PrecisionArg>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PrecisionArg {
    /// `bfloat16`
    Bf16,
    /// `float16`
    F16,
    /// Bytes, times a factor for each channel
    Int8Weights,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OptimizeArg {
    /// Time: kernels take scratch memory, and constant factors are packed
    Speed,
    /// Space: simple loops over weights as they are
    Size,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DefaultsArg {
    /// The caller may leave them out
    Argument,
    /// They are constants
    Constant,
}

impl Shared {
    /// The options that these are.
    pub fn options(&self) -> Result<Options, Diagnostic> {
        let mut options = Options::default();
        options.name.clone_from(&self.name);
        options.optimize = match self.optimize {
            OptimizeArg::Speed => Optimize::Speed,
            OptimizeArg::Size => Optimize::Size,
        };
        options.precision = match self.precision {
            None => Precision::Full,
            Some(PrecisionArg::Bf16) => Precision::Bf16,
            Some(PrecisionArg::F16) => Precision::F16,
            Some(PrecisionArg::Int8Weights) => Precision::Int8Weights,
        };
        self.dim.iter().try_for_each(|text| options.dim(text))?;
        self.shape.iter().try_for_each(|text| options.shape(text))?;
        self.constant.iter().try_for_each(|text| options.constant(text))?;
        self.state.iter().try_for_each(|text| options.state(text))?;
        self.custom.iter().try_for_each(|text| options.custom(text))?;
        self.ty.iter().try_for_each(|text| options.ty(text))?;
        options.settings.defaults = match self.defaults {
            DefaultsArg::Argument => Defaults::Argument,
            DefaultsArg::Constant => Defaults::Constant,
        };
        Ok(options)
    }
}
