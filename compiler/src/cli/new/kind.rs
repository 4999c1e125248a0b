//! The kinds of packages, and the files of each.

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A program whose build script compiles the model
    BuildScript,
    /// A program that answers HTTP requests with the model
    Server,
    /// A program for a Cortex-M4 without an operating system
    Firmware,
    /// A WebAssembly module, and the JavaScript that calls it
    Wasm,
    /// A program that trains the model, made trainable by its build script
    Train,
}

/// A file of a package: its path, and its template.
pub type File = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($path:literal $template:literal)*) => {
        &[$(($path, include_str!(concat!("templates/", $folder, "/", $template)))),*]
    };
}

impl Kind {
    /// Returns the files besides the model or its module.
    pub fn files(self) -> &'static [File] {
        match self {
            Kind::BuildScript => files! { "build_script":
                "Cargo.toml" "Cargo.toml.in"
                "build.rs" "build.rs.in"
                "src/main.rs" "main.rs.in"
            },
            Kind::Server => files! { "server":
                "Cargo.toml" "Cargo.toml.in"
                "src/main.rs" "main.rs.in"
            },
            Kind::Firmware => files! { "firmware":
                ".cargo/config.toml" "config.toml.in"
                "Cargo.toml" "Cargo.toml.in"
                "build.rs" "build.rs.in"
                "memory.x" "memory.x.in"
                "src/main.rs" "main.rs.in"
            },
            Kind::Wasm => files! { "wasm":
                "Cargo.toml" "Cargo.toml.in"
                "model.mjs" "model.mjs.in"
                "src/lib.rs" "lib.rs.in"
                "test.mjs" "test.mjs.in"
            },
            Kind::Train => files! { "train":
                "Cargo.toml" "Cargo.toml.in"
                "build.rs" "build.rs.in"
                "src/main.rs" "main.rs.in"
            },
        }
    }

    /// Returns whether the package has the model, and compiles it in its build script. The others
    /// have the module.
    pub fn has_build_script(self) -> bool {
        matches!(self, Kind::BuildScript | Kind::Train)
    }

    /// Returns whether the program has no heap.
    pub fn is_bare(self) -> bool {
        matches!(self, Kind::Firmware | Kind::Wasm)
    }

    /// Returns the words for the kind in a sentence, and the command that builds or runs it.
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            Kind::BuildScript => ("program with a build script", "cargo run --release"),
            Kind::Server => ("server", "cargo run --release"),
            Kind::Firmware => ("firmware", "cargo run --release"),
            Kind::Wasm => (
                "WebAssembly module",
                "cargo build --release --target wasm32-unknown-unknown && node test.mjs",
            ),
            Kind::Train => ("training program", "cargo run --release"),
        }
    }
}
