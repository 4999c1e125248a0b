//! Import cycles: files of a crate that use each other.
//!
//! Resolves the names in `use` declarations and paths, through re-exports, to the file that
//! declares the item. A module that declares and re-exports its children does not use them. Method
//! calls and the imports of tests are not followed.

use crate::{
    programs::root,
    tidy::{sources, text, without_tests},
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Cycles that stay, because the data structure that the files model is recursive.
const RECURSIVE: &[(&str, &[&str])] = &[
    (
        "a graph has nodes, a node has attributes, and an attribute has graphs",
        &["check/attribute.rs", "check/graph.rs", "check/node.rs"],
    ),
    (
        "a size has parts, and a part is the name of a size",
        &["dim/interval.rs", "dim/mod.rs", "dim/part.rs"],
    ),
    (
        "a node of a graph has an operator, whose methods read the graph",
        &[
            "ir/expr_limit.rs",
            "ir/gradient.rs",
            "ir/graph.rs",
            "ir/infer.rs",
            "ir/lower.rs",
            "ir/op.rs",
            "ir/shape_origin.rs",
            "ir/views.rs",
        ],
    ),
    (
        "the gradient of a Loop is a Scan, and that of a Scan is a Loop",
        &[
            "ops/control/gradient.rs",
            "ops/control/loop_carried.rs",
            "ops/control/loop_op.rs",
            "ops/control/mod.rs",
            "ops/control/scan.rs",
        ],
    ),
    (
        "the gradient of a Conv is a ConvTranspose, and that of a ConvTranspose is a Conv",
        &[
            "ops/conv/gradient.rs",
            "ops/conv/mod.rs",
            "ops/conv/transpose.rs",
            "ops/conv/weight_grad.rs",
        ],
    ),
    ("the gradients of an Einsum are Einsums", &["ops/einsum/gradient.rs", "ops/einsum/mod.rs"]),
    (
        "the gradient of a MaxPool is a MaxPoolGrad, which repeats the MaxPool",
        &["ops/pool/gradient.rs", "ops/pool/mod.rs"],
    ),
];

/// Folders with cycles that are still to be cut. A folder without one leaves the list.
const PENDING: &[&str] = &["arena/", "emit/", "kernels/", "simd/", "threads/"];

type Path = Vec<String>;

/// A name that a file imports, and its path. A glob has no name.
struct Import {
    path: Path,
    name: Option<String>,
    is_public: bool,
}

/// A source file: its module, imports, other paths, items and identifiers.
struct File {
    name: String,
    module: Path,
    imports: Vec<Import>,
    paths: Vec<Path>,
    items: HashSet<String>,
    identifiers: HashSet<String>,
}

/// The files of a crate.
struct Crate {
    files: Vec<File>,
    modules: HashMap<Path, usize>,
}

/// Splits code into identifiers, `::` and other characters, without comments and literals.
fn tokens(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut i) = (Vec::new(), 0);
    let at = |i: usize| chars.get(i).copied().unwrap_or(' ');
    while i < chars.len() {
        let start = i;
        match chars[i] {
            '/' if at(i + 1) == '/' => i += chars[i..].iter().take_while(|c| **c != '\n').count(),
            'r' if at(i + 1) == '"' || at(i + 1) == '#' && matches!(at(i + 2), '"' | '#') => {
                let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
                let end: Vec<char> = format!("\"{}", "#".repeat(hashes)).chars().collect();
                i += hashes + 2;
                while i < chars.len() && !chars[i..].starts_with(&end) {
                    i += 1;
                }
                i += end.len();
            }
            '"' => {
                i += 1;
                while i < chars.len() && chars[i] != '"' {
                    i += if chars[i] == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                i += 1 + chars[i..].iter().take_while(|c| **c != '\'').count();
            }
            ':' if at(i + 1) == ':' => {
                tokens.push("::".into());
                i += 2;
            }
            c if is_word(c) => {
                i += chars[i..].iter().take_while(|c| is_word(**c)).count();
                tokens.push(chars[start..i].iter().collect());
            }
            c => {
                i += 1;
                if !c.is_whitespace() {
                    tokens.push(c.into());
                }
            }
        }
    }
    tokens
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads the tree of a `use` declaration from `tokens[i]`, and returns the index behind it.
fn read_use(
    tokens: &[String],
    mut i: usize,
    prefix: &[String],
    is_public: bool,
    imports: &mut Vec<Import>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens[i].as_str() {
            "::" => i += 1,
            "*" => {
                imports.push(Import { path, name: None, is_public });
                return i + 1;
            }
            "{" => {
                i += 1;
                while tokens[i] != "}" {
                    i = read_use(tokens, i, &path, is_public, imports);
                    i += usize::from(tokens[i] == ",");
                }
                return i + 1;
            }
            _ => {
                path.push(tokens[i].clone());
                i += 1;
                if tokens[i] == "::" {
                    continue;
                }
                let mut name = path.last().cloned();
                if name.as_deref() == Some("self") {
                    path.pop();
                    name = path.last().cloned();
                }
                if tokens[i] == "as" {
                    name = Some(tokens[i + 1].clone());
                    i += 2;
                }
                imports.push(Import { path, name, is_public });
                return i;
            }
        }
    }
}

impl File {
    fn read(name: &str, code: &str) -> File {
        let tokens = tokens(code);
        let module = name.trim_end_matches(".rs").split('/').map(str::to_owned);
        let mut module: Path = module.collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib"));
        let mut file = File {
            name: name.to_owned(),
            module,
            imports: Vec::new(),
            paths: Vec::new(),
            items: HashSet::new(),
            identifiers: HashSet::new(),
        };
        file.scan(&tokens);
        file
    }

    fn scan(&mut self, tokens: &[String]) {
        const ITEMS: [&str; 8] =
            ["fn", "struct", "enum", "trait", "const", "static", "type", "macro_rules"];
        let mut i = 0;
        while i < tokens.len() {
            let (token, before) =
                (tokens[i].as_str(), if i > 0 { tokens[i - 1].as_str() } else { "" });
            let next = tokens.get(i + 1).map_or("", String::as_str);
            if token == "use" && next != "<" {
                let is_public = matches!(before, "pub" | ")");
                i = read_use(tokens, i + 1, &[], is_public, &mut self.imports);
                continue;
            }
            if ITEMS.contains(&token) {
                self.items.extend(tokens[i + 1..].iter().find(|t| is_identifier(t)).cloned());
            }
            if !is_identifier(token) || matches!(before, "." | "::" | "in" | "mod") {
                i += 1;
                continue;
            }
            let mut path = vec![token.to_owned()];
            i += 1;
            while tokens.get(i).is_some_and(|t| t == "::")
                && tokens.get(i + 1).is_some_and(|t| is_identifier(t))
            {
                path.push(tokens[i + 1].clone());
                i += 2;
            }
            self.identifiers.insert(token.to_owned());
            if path.len() > 1 {
                self.paths.push(path);
            }
        }
    }
}

impl Crate {
    fn read(folder: &str) -> Crate {
        let folder = root().join(folder);
        let mut files = Vec::new();
        for path in sources(&folder) {
            let inside = path.strip_prefix(&folder).expect("the path is below the folder");
            let name = inside.to_string_lossy().replace('\\', "/");
            // Tests, the root of the binary, and a program that is written to a project.
            if !name.ends_with("tests.rs") && name != "main.rs" && name != "cli/bench/program.rs" {
                files.push(File::read(&name, without_tests(&text(&path))));
            }
        }
        Crate::of(files)
    }

    fn of(files: Vec<File>) -> Crate {
        let modules = files.iter().enumerate().map(|(i, file)| (file.module.clone(), i));
        Crate { modules: modules.collect(), files }
    }

    /// The file that declares the item at `path`, as `file` writes the path.
    fn resolve(&self, file: usize, path: &[String], depth: usize) -> Option<usize> {
        if depth > 20 {
            return None;
        }
        let mut module = self.files[file].module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" | "onnxc" => (module, rest) = (Path::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    module.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                module.push(first.to_owned());
                let is_child = self.modules.contains_key(&module);
                module.pop();
                if !is_child {
                    let import = self.files[file].import(first)?;
                    let path = [&import.path, &path[1..]].concat();
                    return (import.path[0] != first || import.path.len() > 1)
                        .then(|| self.resolve(file, &path, depth + 1))?;
                }
            }
        }
        self.resolve_in(module, rest, depth)
    }

    /// The file that declares the item at `path` in a module.
    fn resolve_in(&self, mut module: Path, path: &[String], depth: usize) -> Option<usize> {
        for (i, name) in path.iter().enumerate() {
            module.push(name.clone());
            if self.modules.contains_key(&module) {
                continue;
            }
            module.pop();
            let here = *self.modules.get(&module)?;
            let file = &self.files[here];
            if let Some(import) = file.import(name) {
                let path = [&import.path, &path[i + 1..]].concat();
                return self.resolve(here, &path, depth + 1);
            }
            if !file.items.contains(name) {
                for glob in file.imports.iter().filter(|import| import.name.is_none()) {
                    let path = [glob.path.as_slice(), &path[i..i + 1]].concat();
                    let found = self.resolve(here, &path, depth + 1);
                    if found.is_some_and(|found| self.files[found].items.contains(name)) {
                        return found;
                    }
                }
            }
            return Some(here);
        }
        self.modules.get(&module).copied()
    }

    /// The files that a file uses.
    fn uses(&self, i: usize) -> BTreeSet<usize> {
        let file = &self.files[i];
        let is_used = |import: &&Import| {
            let name = import.name.as_ref();
            !import.is_public || name.is_some_and(|name| file.identifiers.contains(name))
        };
        let imports = file.imports.iter().filter(is_used).map(|import| &import.path);
        let found = imports.chain(&file.paths).filter_map(|path| self.resolve(i, path, 0));
        found.filter(|&found| found != i).collect()
    }

    /// The sets of files that use each other.
    fn cycles(&self) -> Vec<Vec<&str>> {
        let uses: Vec<_> = (0..self.files.len()).map(|i| self.uses(i)).collect();
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len())
            .map(|i| {
                let (mut reached, mut open) = (BTreeSet::new(), vec![i]);
                while let Some(file) = open.pop() {
                    open.extend(uses[file].iter().filter(|&&used| reached.insert(used)));
                }
                reached
            })
            .collect();
        let mut cycles: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for i in (0..self.files.len()).filter(|&i| reached[i].contains(&i)) {
            let first = reached[i].iter().find(|&&j| reached[j].contains(&i));
            let cycle = cycles.entry(*first.expect("a cycle contains its first file")).or_default();
            cycle.push(&self.files[i].name);
        }
        cycles.into_values().collect()
    }
}

impl File {
    fn import(&self, name: &str) -> Option<&Import> {
        self.imports.iter().find(|import| import.name.as_deref() == Some(name))
    }
}

#[test]
fn files_have_no_import_cycles() {
    let mut wrong = Vec::new();
    for folder in ["compiler/src", "runtime-lib/src"] {
        let sources = Crate::read(folder);
        for cycle in sources.cycles() {
            let is_recursive =
                RECURSIVE.iter().any(|(_, files)| cycle.iter().all(|file| files.contains(file)));
            let is_pending =
                cycle.iter().all(|file| PENDING.iter().any(|folder| file.starts_with(folder)));
            if !is_recursive && !is_pending {
                wrong
                    .push(format!("in {folder}, these files use each other: {}", cycle.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn re_exports_are_not_uses_but_items_of_a_parent_are() {
    let cycles = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(name, code)| File::read(name, code)).collect();
        Crate::of(files).cycles().concat().join(" ")
    };
    let child = ("a/child.rs", "use super::{Other, deep::Deep}; pub struct Item;");
    let other = ("a/other.rs", "pub struct Other; // super::child::Item");
    let deep = ("a/deep.rs", "pub struct Deep(&'static str); const C: &str = \"super::child\";");
    let parent = ("a/mod.rs", "mod child; mod other; pub use child::Item; pub use other::Other;");
    assert_eq!(cycles(&[child, other, deep, parent]), "");
    let parent = ("a/mod.rs", "mod child; pub struct Other; fn f() { child::f() }");
    assert_eq!(cycles(&[child, deep, parent]), "a/child.rs a/mod.rs");
    let deep = ("a/deep.rs", "fn f() -> crate::a::Item { '\\'' }");
    let parent = ("a/mod.rs", "mod child; pub use child::Item; mod other; pub use other::Other;");
    assert_eq!(cycles(&[child, other, deep, parent]), "a/child.rs a/deep.rs");
}
