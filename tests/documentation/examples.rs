//! Every public item has an example that compiles.
//!
//! Public is what `src/lib.rs` re-exports: types, traits, functions and macros; the inherent
//! functions of those types, wherever they are implemented; the methods of those traits; and the
//! same of every type that a signature of these names. Each needs a block of Rust of its own in its
//! documentation. Variants, fields, associated constants, implementations of traits and what is
//! hidden need none.
//!
//! This is a scan of lines, which is enough because everything is formatted by rustfmt: an item
//! begins at the indentation of its module or `impl`, and that ends with a brace at its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::root;

/// The crates, by name, and where their sources are.
const CRATES: [(&str, &str); 4] = [
    ("zklock", "src"),
    ("zklock_core", "zklock-core/src"),
    ("zklock_macros", "zklock-macros/src"),
    ("zklock_simulator", "zklock-simulator/src"),
];

/// The path of a module, the crate first.
type ModulePath = Vec<String>;

#[derive(Clone, Debug)]
struct Item {
    name: String,
    place: String,
    module: ModulePath,
    /// From its first word to the body; of a type, what is public in it.
    signature: String,
    public: bool,
    example: bool,
    /// Of a trait.
    methods: Vec<Item>,
}

#[derive(Debug, Default)]
struct Module {
    items: BTreeMap<String, Item>,
    /// What is imported: whether it is exported again, and from where.
    uses: BTreeMap<String, (bool, Vec<String>)>,
    /// The modules inside, and whether they are public.
    modules: BTreeMap<String, bool>,
}

struct File {
    name: String,
    lines: Vec<String>,
}

/// The comments and attributes above an item.
#[derive(Default)]
struct Docs(Vec<String>);

impl Docs {
    fn has(&self, attribute: &str) -> bool {
        self.0.iter().any(|line| line.starts_with(attribute))
    }

    /// Whether there is a block of Rust that is compiled. One that imports what users have not is none.
    fn example(&self) -> bool {
        if self.0.iter().any(|line| line.starts_with("///") && line.contains("zklock_core")) {
            return false;
        }
        let mut fences = self.0.iter().filter_map(|line| line.strip_prefix("/// ```"));
        let mut opens = false;
        fences.any(|language| {
            opens = !opens;
            opens && matches!(language, "" | "rust" | "no_run")
        })
    }
}

#[derive(Default)]
struct Sources {
    modules: BTreeMap<ModulePath, Module>,
    /// The inherent functions: of which type, as it is written in which module.
    inherent: Vec<(ModulePath, Vec<String>, Vec<Item>)>,
}

/// What users can reach.
struct Reachable {
    name: String,
    example: bool,
    /// Where the signature is that names it, if it is exported nowhere.
    by: Option<String>,
}

enum Found<'a> {
    Item(&'a Item),
    Module(ModulePath),
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|&part| part.to_owned()).collect()
}

/// The path at the beginning of a text.
fn path(text: &str) -> Vec<String> {
    let end = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
    let path = text.split(end).next().unwrap_or_default();
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What is behind generic parameters, if there are any.
fn skip_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if c == '>' { &text[at + 1..] } else { text };
        }
    }
    text
}

/// What is between the commas that are in no brackets, up to a bracket that closes what is not opened here.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut end) = (0, 0, text.len());
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            end = at;
            break;
        }
    }
    found.push(text[start..end].trim());
    found
}

/// The names that a `use` brings, each with its whole path.
fn imports(prefix: &[String], tree: &str, found: &mut Vec<(String, Vec<String>)>) {
    let tree = tree.trim();
    if let Some(group) = tree.strip_prefix('{').and_then(|group| group.strip_suffix('}')) {
        parts(group).into_iter().for_each(|part| imports(prefix, part, found));
    } else if let Some((first, rest)) = tree.split_once("::") {
        imports(&[prefix, &[first.to_owned()]].concat(), rest, found);
    } else if !tree.is_empty() {
        let (name, alias) = tree.split_once(" as ").unwrap_or((tree, tree));
        match (name, prefix.last()) {
            ("self", Some(last)) => found.push((last.clone(), prefix.to_vec())),
            _ => found.push((alias.to_owned(), [prefix, &[name.to_owned()]].concat())),
        }
    }
}

/// Whether an item is public, its kind and its name.
fn header(line: &str) -> Option<(bool, &str, &str)> {
    let (public, mut rest) = match line.strip_prefix("pub ") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    if rest.starts_with("pub(") {
        rest = rest.split_once(") ")?.1;
    }
    for word in ["const ", "async "] {
        rest = rest.strip_prefix(word).filter(|rest| rest.contains("fn ")).unwrap_or(rest);
    }
    let (kind, rest) = rest.split_once(' ')?;
    let known = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"];
    let end = |c: char| !(c.is_alphanumeric() || c == '_');
    let name = rest.split(end).next().filter(|name| !name.is_empty())?;
    known.contains(&kind).then_some((public, kind, name))
}

impl File {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        File { name, lines: text.lines().map(str::to_owned).collect() }
    }

    /// A line that begins at this indentation, without it.
    fn at(&self, line: usize, indent: usize) -> Option<&str> {
        let (spaces, text) = self.lines[line].split_at_checked(indent)?;
        let begins = spaces.trim().is_empty() && !text.is_empty() && !text.starts_with(' ');
        begins.then_some(text)
    }

    /// The lines from here up to one that ends with any of these, as one.
    fn until(&self, from: usize, ends: &[char]) -> (usize, String) {
        let last = (from..self.lines.len()).find(|line| self.lines[*line].ends_with(ends));
        let last = last.unwrap_or(from);
        let lines: Vec<_> = self.lines[from..=last].iter().map(|line| line.trim()).collect();
        (last, lines.join(" "))
    }

    /// The closing brace of what was opened at this indentation.
    fn end(&self, from: usize, indent: usize) -> usize {
        (from..self.lines.len()).find(|line| self.at(*line, indent) == Some("}")).unwrap_or(from)
    }

    fn item(&self, line: usize, name: &str, docs: &Docs, module: &[String], public: bool) -> Item {
        let (open, mut signature) = self.until(line, &['{', ';', '}']);
        let is_enum = signature.contains("enum ");
        if is_enum || signature.contains("struct ") {
            // Of a type: its public fields, or its variants.
            let indent = self.lines[line].len() - self.lines[line].trim_start().len();
            let fields: String = if signature.ends_with('{') {
                let inside =
                    self.lines[open + 1..self.end(open, indent)].iter().map(|it| it.trim());
                let inside = inside.filter(|line| !line.starts_with(['/', '#']));
                inside.collect::<String>().replace("->", "")
            } else {
                let signature = signature.replace("->", "");
                let behind = signature.split_once(name).unwrap_or_default().1;
                skip_generics(behind).trim_start_matches('(').to_owned()
            };
            let fields = parts(&fields).into_iter();
            let public = fields.filter(|field| is_enum || field.starts_with("pub "));
            signature = public.collect::<Vec<_>>().join(",");
        }
        Item {
            name: name.to_owned(),
            place: format!("{}:{}", self.name, line + 1),
            module: module.to_vec(),
            signature,
            public: public && !docs.has("#[doc(hidden)]"),
            example: docs.example(),
            methods: Vec::new(),
        }
    }

    /// The functions in an `impl`, or in a trait, where all are public.
    fn functions(
        &self,
        lines: Range<usize>,
        indent: usize,
        module: &[String],
        all: bool,
    ) -> Vec<Item> {
        let (mut docs, mut found) = (Docs::default(), Vec::new());
        for line in lines {
            let Some(text) = self.at(line, indent) else { continue };
            if text.starts_with("///") || text.starts_with("#[") {
                docs.0.push(text.to_owned());
                continue;
            }
            if let Some((public, "fn", name)) = header(text) {
                found.push(self.item(line, name, &docs, module, public || all));
            }
            docs = Docs::default();
        }
        found.retain(|item| item.public);
        found
    }
}

impl Sources {
    fn read() -> Self {
        let mut sources = Sources::default();
        for (name, folder) in CRATES {
            sources.file(&root().join(folder).join("lib.rs"), &owned(&[name]));
        }
        sources
    }

    fn file(&mut self, path: &Path, module: &[String]) {
        let file = File::read(path);
        self.scan(&file, 0..file.lines.len(), 0, module);
    }

    fn scan(&mut self, file: &File, lines: Range<usize>, indent: usize, path: &[String]) {
        let (mut module, mut docs) = (Module::default(), Docs::default());
        let mut next = lines.start;
        while next < lines.end {
            let line = next;
            next += 1;
            let Some(text) = file.at(line, indent) else { continue };
            if text.starts_with("///") || text.starts_with("#[") {
                docs.0.push(text.to_owned());
                continue;
            }
            let docs = std::mem::take(&mut docs);
            if docs.has("#[cfg(doctest)]") || docs.has("#[cfg(test)]") {
                continue;
            }
            let used = text.strip_prefix("pub use ").or_else(|| text.strip_prefix("use "));
            if let Some(begin) = used {
                let (last, whole) = file.until(line, &[';']);
                let tree = &whole[text.len() - begin.len()..whole.len() - 1];
                let public = text.starts_with("pub") && !docs.has("#[doc(hidden)]");
                let mut found = Vec::new();
                imports(&[], tree, &mut found);
                module.uses.extend(found.into_iter().map(|(name, path)| (name, (public, path))));
                next = last + 1;
            } else if text.starts_with("impl") {
                let (open, whole) = file.until(line, &['{', '}']);
                let whole = whole.replace("->", "");
                let head = skip_generics(&whole["impl".len()..]).trim();
                let head = head.split(" where ").next().unwrap_or_default();
                if whole.ends_with('{') {
                    next = file.end(open, indent) + 1;
                    if !head.replace("for<", "").contains(" for ") {
                        let found = file.functions(open + 1..next - 1, indent + 4, path, false);
                        self.inherent.push((path.to_vec(), self::path(head), found));
                    }
                }
            } else if let Some((public, kind, name)) = header(text) {
                let mut item = file.item(line, name, &docs, path, public);
                if kind == "mod" {
                    module.modules.insert(name.to_owned(), item.public);
                    let inside = [path, &[name.to_owned()]].concat();
                    if text.ends_with('{') {
                        next = file.end(line, indent) + 1;
                        self.scan(file, line + 1..next - 1, indent + 4, &inside);
                    } else if let Some(source) = source(&inside) {
                        self.file(&source, &inside);
                    }
                    continue;
                }
                if kind == "trait" {
                    let (open, _) = file.until(line, &['{']);
                    next = file.end(open, indent) + 1;
                    item.methods = file.functions(open + 1..next - 1, indent + 4, path, true);
                }
                module.items.insert(name.to_owned(), item);
            }
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// What a path means in a module.
    fn find(&self, module: &[String], path: &[String]) -> Option<Found<'_>> {
        let (first, rest) = path.split_first()?;
        let here = self.modules.get(module)?;
        match first.as_str() {
            "crate" => return self.find(&module[..1], rest),
            "self" => return self.find(module, rest),
            "super" => return self.find(&module[..module.len() - 1], rest),
            _ => {}
        }
        if rest.is_empty()
            && let Some(item) = here.items.get(first)
        {
            return Some(Found::Item(item));
        }
        let inside = if here.modules.contains_key(first) {
            [module, std::slice::from_ref(first)].concat()
        } else if let Some((_, path)) =
            here.uses.get(first).filter(|(_, path)| **path != [first.as_str()])
        {
            match self.find(module, path)? {
                Found::Module(path) => path,
                item => return rest.is_empty().then_some(item),
            }
        } else if CRATES.iter().any(|(name, _)| name == first) {
            vec![first.clone()]
        } else {
            return None;
        };
        if rest.is_empty() { Some(Found::Module(inside)) } else { self.find(&inside, rest) }
    }

    /// The inherent functions of a type, the methods of a trait.
    fn functions<'a>(&'a self, of: &'a Item) -> impl Iterator<Item = &'a Item> {
        let is_of = move |module: &[String], name: &[String]| match self.find(module, name) {
            Some(Found::Item(item)) => item.place == of.place,
            _ => false,
        };
        let inherent = self.inherent.iter().filter(move |(module, name, _)| is_of(module, name));
        of.methods.iter().chain(inherent.flat_map(|(_, _, found)| found))
    }

    /// Everything that users of the facade can reach.
    fn reachable(&self) -> BTreeMap<String, Reachable> {
        let (mut found, mut modules) = (BTreeMap::<_, Reachable>::new(), BTreeSet::new());
        let mut todo = vec![(None, Found::Module(owned(&["zklock"])))];
        while let Some((by, next)) = todo.pop() {
            let item = match next {
                Found::Module(path) => {
                    if modules.insert(path.clone()) {
                        let module = &self.modules[&path];
                        let inside = module.modules.iter().filter(|(_, public)| **public);
                        let inside = inside.map(|(name, _)| std::slice::from_ref(name));
                        let uses = module.uses.values().filter(|(public, _)| *public);
                        let paths = inside.chain(uses.map(|(_, from)| from.as_slice()));
                        let found = paths.filter_map(|inner| self.find(&path, inner));
                        let found = found.chain(module.items.values().map(Found::Item));
                        todo.extend(found.map(|inner| (None, inner)));
                    }
                    continue;
                }
                Found::Item(item) if !item.public => continue,
                Found::Item(item) => item,
            };
            if let Some(known) = found.get_mut(&item.place) {
                known.by = known.by.take().filter(|_| by.is_some());
                continue;
            }
            let (name, example) = (item.name.clone(), item.example);
            found.insert(item.place.clone(), Reachable { name, example, by });
            let functions: Vec<_> = self.functions(item).collect();
            for function in &functions {
                let name = format!("{}::{}", item.name, function.name);
                let of = Reachable { name, example: function.example, by: None };
                found.insert(function.place.clone(), of);
            }
            for named in functions.into_iter().chain([item]) {
                let words = named.signature.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                let types = words.filter(|word| word.starts_with(char::is_uppercase));
                let types = types.filter_map(|name| self.find(&named.module, &owned(&[name])));
                todo.extend(types.map(|found| (Some(named.place.clone()), found)));
            }
        }
        found
    }

    /// What public signatures name and users cannot, each with where it is named.
    fn not_exported(&self) -> Vec<String> {
        let reachable = self.reachable();
        let named = reachable.values().filter_map(|item| Some((item.by.as_ref()?, &item.name)));
        named.map(|(by, name)| format!("{by}: {name}")).collect()
    }
}

/// The file of a module.
fn source(module: &[String]) -> Option<PathBuf> {
    let (_, folder) = CRATES.iter().find(|(name, _)| *name == module[0])?;
    let path = root().join(folder).join(module[1..].join("/"));
    let files = [path.with_extension("rs"), path.join("mod.rs")];
    files.into_iter().find(|file| file.exists())
}

#[test]
fn every_public_item_has_an_example_that_compiles() {
    let reachable = Sources::read().reachable();
    let without = reachable.iter().filter(|(_, item)| !item.example);
    let without: Vec<_> = without.map(|(place, item)| format!("{place}: {}", item.name)).collect();
    assert!(without.is_empty(), "without an example:\n{}", without.join("\n"));
}

#[test]
fn everything_that_a_public_signature_names_can_be_named() {
    let named = Sources::read().not_exported();
    assert!(named.is_empty(), "not exported:\n{}", named.join("\n"));
}

#[test]
fn a_type_that_is_only_named_is_found_wherever_it_is_named() {
    let text = "\
pub use inside::{Fields, Pair, Variants, call};
mod inside {
    pub struct Fields {
        pub one: Result<u8, Second>,
        #[doc(hidden)]
        pub(crate) own: Internal,
        other: (Internal, u8),
        pub many: HashMap<
            Key,
            Value,
        >,
    }
    pub struct Pair<F: Fn(u8) -> u8>(pub fn(Argument) -> F, Internal, pub Last);
    pub enum Variants {
        Tuple(u8, InTuple),
        Named { field: InNamed },
    }
    pub fn call(value: Option<Parameter>) -> Returned {}
    pub struct Argument;
    pub struct InNamed;
    pub struct InTuple;
    pub struct Internal;
    pub struct Key;
    pub struct Last;
    pub struct Parameter;
    pub struct Returned;
    pub struct Second;
    pub struct Value;
}";
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let file = File { name: "text".to_owned(), lines };
    let mut sources = Sources::default();
    sources.scan(&file, 0..file.lines.len(), 0, &owned(&["zklock"]));
    let found = sources.not_exported();
    let mut found: Vec<_> = found.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    found.sort_unstable();
    let expected = [
        "Argument",
        "InNamed",
        "InTuple",
        "Key",
        "Last",
        "Parameter",
        "Returned",
        "Second",
        "Value",
    ];
    assert_eq!(found, expected);
}

/// What is looked at is what is there: of each way to be public, one that is found by it.
#[test]
fn public_items_are_found_wherever_they_are() {
    let reachable = Sources::read().reachable();
    let names: BTreeSet<_> = reachable.values().map(|item| item.name.as_str()).collect();
    for name in [
        "zk_locked",                   // a macro
        "carry",                       // a function
        "Mutex::acquire",              // of a type that is exported again twice
        "Session::mutex",              // in the file of another type
        "Guard::blocking_release",     // the same of a generic type
        "RwLockWriteGuard::downgrade", // of an alias
        "LockDriver::parse",           // of a trait
        "Alone",                       // in a module within a file
        "block_on",                    // in a module that is exported
        "NameBuilder::value",          // of a type that only a signature names
        "Faults::expire",
    ] {
        assert!(names.contains(name), "{name} is not found");
    }
    let internal = ["Queue", "Lease::release", "LockDriver::example", "AnyLock::once"];
    assert!(internal.iter().all(|name| !names.contains(name)));
}

#[test]
fn only_rust_that_is_compiled_is_an_example() {
    let docs = |fences: &[&str]| {
        Docs(fences.iter().map(|fence| format!("/// ```{fence}")).collect()).example()
    };
    assert!(docs(&["", ""]) && docs(&["no_run", ""]) && docs(&["text", "", "rust", ""]));
    assert!(!docs(&[]) && !docs(&["text", ""]) && !docs(&["ignore", ""]));
}
